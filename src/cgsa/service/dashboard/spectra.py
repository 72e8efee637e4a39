"""Spectra of a signal, and the lines in them at which a fault shows."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cgsa.errors import DataError
from cgsa.metrics.accuracy import DoubleArray

MAX_POINTS = 800
"""Points of a curve; a screen has few more columns."""
MAX_ORDERS = 40
MAX_HARMONICS = 10


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Amplitudes over frequencies."""

    frequency: DoubleArray
    """In Hz."""
    amplitude: DoubleArray
    """(channels, frequencies); of a sine, in the unit of the signal."""
    resolution: float
    """Hz between two frequencies, before neighbours were merged."""


def squared_amplitudes(samples: npt.NDArray[np.float32]) -> DoubleArray:
    """Return the squared amplitudes of a Hann-windowed signal, (channels, frequencies)."""
    samples = np.asarray(samples, dtype=np.float64)
    count = samples.shape[1]
    window = np.hanning(count + 2)[1:-1]
    transform = np.fft.rfft((samples - samples.mean(axis=1, keepdims=True)) * window, axis=1)
    return np.asarray((2 * np.abs(transform) / window.sum()) ** 2)


def amplitude_spectrum(squared: DoubleArray, sample_rate: float, count: int, points: int = MAX_POINTS) -> Spectrum:
    """Return the spectrum of signals of ``count`` samples from their squared amplitudes.

    Neighbours are merged to at most ``points`` values; the largest is kept, so that no line is lost.
    """
    amplitude = np.sqrt(squared)
    frequency = np.arange(amplitude.shape[1]) * sample_rate / count
    merged = -(-amplitude.shape[1] // points)
    if merged > 1:
        edges = np.arange(0, amplitude.shape[1], merged)
        amplitude = np.maximum.reduceat(amplitude, edges, axis=1)
        frequency = frequency[np.minimum(edges + merged // 2, len(frequency) - 1)]
    return Spectrum(frequency, amplitude, sample_rate / count)


@dataclass(frozen=True)
class OrderLines:
    """Frequencies at which a fault would show: multiples of the speed of a shaft, and their harmonics."""

    rpm: float = 0.0
    """Speed of the shaft; 0 draws no lines."""
    orders: tuple[float, ...] = (1.0,)
    """Events per revolution, such as the teeth of a gear."""
    harmonics: int = 3

    def __post_init__(self) -> None:
        valid = 0 <= self.rpm <= 1e6 and all(0 < order <= 1e4 for order in self.orders)
        if not valid or not 1 <= len(self.orders) <= MAX_ORDERS or not 1 <= self.harmonics <= MAX_HARMONICS:
            raise DataError(
                f"lines at {self.rpm:g} rpm, orders {', '.join(f'{order:g}' for order in self.orders) or 'none'}, "
                f"{self.harmonics} harmonics; expected a speed of 0 or more, 1 to {MAX_ORDERS} positive orders and "
                f"1 to {MAX_HARMONICS} harmonics"
            )

    @classmethod
    def parse(cls, text: str) -> OrderLines:
        """Read the result of :meth:`to_text`; return no lines if the text is invalid.

        >>> OrderLines.parse("1500;1,3.57;2")
        OrderLines(rpm=1500.0, orders=(1.0, 3.57), harmonics=2)
        """
        try:
            rpm, orders, harmonics = text.split(";")
            return cls(float(rpm), parse_orders(orders), int(harmonics))
        except (ValueError, DataError):
            return cls()

    def to_text(self) -> str:
        """Return the value of the cookie in which a browser keeps the lines."""
        return f"{self.rpm:g};{','.join(f'{order:g}' for order in self.orders)};{self.harmonics}"

    def frequencies(self, highest: float) -> list[tuple[float, str]]:
        """Return the frequencies up to the highest, each with its name."""
        if not self.rpm:
            return []
        found = [
            (self.rpm / 60 * order * harmonic, f"{order:g}x" if harmonic == 1 else f"{harmonic}·{order:g}x")
            for order in self.orders
            for harmonic in range(1, self.harmonics + 1)
        ]
        return [(frequency, name) for frequency, name in found if frequency <= highest]


def parse_orders(text: str) -> tuple[float, ...]:
    """Read orders separated by commas or spaces.

    >>> parse_orders("1, 3.57 5.43")
    (1.0, 3.57, 5.43)
    """
    try:
        return tuple(float(part) for part in re.split(r"[,\s]+", text.strip()) if part)
    except ValueError as error:
        raise DataError(f"orders {text!r}; expected numbers separated by commas") from error
