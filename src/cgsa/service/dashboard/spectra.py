"""The signal as a chart can show it: thinned without losing what stands out, and as a spectrum with lines in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cgsa.errors import DataError
from cgsa.report.decimation import min_max_indices

Floats = npt.NDArray[np.float64]

MOST_POINTS = 800
"""Of a curve; more than a screen has columns would only be sent in vain."""
MOST_LINES = 40
MOST_HARMONICS = 10


def envelope(values: npt.NDArray[np.float32], points: int = MOST_POINTS) -> tuple[Floats, Floats]:
    """Return indices and values of at most ``points`` samples of a curve, all its peaks included."""
    kept = min_max_indices(values, points)
    return kept.astype(np.float64), values[kept].astype(np.float64)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Amplitudes over frequencies."""

    frequency: Floats
    """In Hz."""
    amplitude: Floats
    """(channels, frequencies), of a sine in the unit of the signal."""
    resolution: float
    """Hz from one frequency to the next, before any were joined."""


def power(samples: npt.NDArray[np.float32]) -> Floats:
    """Return the squared amplitudes of a Hann-windowed signal, (channels, frequencies)."""
    samples = np.asarray(samples, dtype=np.float64)
    count = samples.shape[1]
    window = np.hanning(count + 2)[1:-1]
    seen = np.fft.rfft((samples - samples.mean(axis=1, keepdims=True)) * window, axis=1)
    return np.asarray((2 * np.abs(seen) / window.sum()) ** 2)


def spectrum(powers: Floats, sample_rate: float, count: int, points: int = MOST_POINTS) -> Spectrum:
    """Return the spectrum of signals of ``count`` samples from their squared amplitudes.

    Of neighbours that are joined the largest is kept, so that no line is lost.
    """
    amplitude = np.sqrt(powers)
    frequency = np.arange(amplitude.shape[1]) * sample_rate / count
    joined = -(-amplitude.shape[1] // points)
    if joined > 1:
        edges = np.arange(0, amplitude.shape[1], joined)
        amplitude = np.maximum.reduceat(amplitude, edges, axis=1)
        frequency = frequency[np.minimum(edges + joined // 2, len(frequency) - 1)]
    return Spectrum(frequency, amplitude, sample_rate / count)


@dataclass(frozen=True)
class Lines:
    """Where a fault would show itself: multiples of the speed of a shaft, and their harmonics."""

    rpm: float = 0.0
    """Speed of the shaft; without one there are no lines."""
    orders: tuple[float, ...] = (1.0,)
    """In lines a turn, such as the teeth of a gear."""
    harmonics: int = 3

    def __post_init__(self) -> None:
        fine = 0 <= self.rpm <= 1e6 and all(0 < order <= 1e4 for order in self.orders)
        if not fine or not 1 <= len(self.orders) <= MOST_LINES or not 1 <= self.harmonics <= MOST_HARMONICS:
            raise DataError(
                f"lines at {self.rpm:g} rpm, orders {', '.join(f'{order:g}' for order in self.orders) or 'none'}, "
                f"{self.harmonics} harmonics; expected a speed of 0 or more, 1 to {MOST_LINES} positive orders and "
                f"1 to {MOST_HARMONICS} harmonics"
            )

    @classmethod
    def parse(cls, text: str) -> Lines:
        """Read what :meth:`to_text` wrote; what is none of it is no lines at all.

        >>> Lines.parse("1500;1,3.57;2")
        Lines(rpm=1500.0, orders=(1.0, 3.57), harmonics=2)
        """
        try:
            rpm, orders, harmonics = text.split(";")
            return cls(float(rpm), parse_orders(orders), int(harmonics))
        except (ValueError, DataError):
            return cls()

    def to_text(self) -> str:
        """Return the lines as a browser keeps them."""
        return f"{self.rpm:g};{','.join(f'{order:g}' for order in self.orders)};{self.harmonics}"

    def frequencies(self, highest: float) -> list[tuple[float, str]]:
        """Return the frequencies up to the highest that there is, each with its name."""
        if not self.rpm:
            return []
        turn = self.rpm / 60
        found = [
            (turn * order * harmonic, f"{order:g}x" if harmonic == 1 else f"{harmonic}·{order:g}x")
            for order in self.orders
            for harmonic in range(1, self.harmonics + 1)
        ]
        return [(frequency, name) for frequency, name in found if frequency <= highest]


def parse_orders(text: str) -> tuple[float, ...]:
    """Read orders between commas or spaces.

    >>> parse_orders("1, 3.57 5.43")
    (1.0, 3.57, 5.43)
    """
    try:
        return tuple(float(word) for word in re.split(r"[,\s]+", text.strip()) if word)
    except ValueError as error:
        raise DataError(f"orders {text!r}; expected numbers between commas") from error
