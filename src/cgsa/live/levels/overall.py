"""Overall levels of a signal: RMS, peak, and the velocity RMS within a band, as vibration monitors measure them.

Standards of machine vibration (ISO 20816) judge the RMS of the velocity between 10 and 1000 Hz. Most sensors measure
acceleration. A sine of frequency f has a velocity that is 1/(2 pi f) times its acceleration, so the power spectrum of
the acceleration, divided by (2 pi f)^2 and summed over the band, is the mean square of the velocity.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import ceil, pi, sqrt

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from cgsa.metrics.accuracy import DoubleArray

VELOCITY_UNITS: Mapping[str, tuple[float, int]] = {
    "g": (9806.65, 1),
    "mg": (9.80665, 1),
    "m/s2": (1000.0, 1),
    "m/s^2": (1000.0, 1),
    "m/s**2": (1000.0, 1),
    "m/s²": (1000.0, 1),
    "mm/s2": (1.0, 1),
    "mm/s^2": (1.0, 1),
    "mm/s**2": (1.0, 1),
    "mm/s²": (1.0, 1),
    "mm/s": (1.0, 0),
    "m/s": (1000.0, 0),
}
"""Units of channels that have a velocity: the factor to mm/s2 or mm/s, and how often to integrate."""
RATE_SHARE = 2.56
"""The sample rate must be this many times the highest frequency: anti-aliasing filters need room (ISO 13373-2)."""
SEGMENT_PERIODS = 10
"""Periods of the lowest frequency in one spectrum: a tenth of that frequency is resolved."""
MIN_PERIODS = 2
"""With fewer, the mean of the samples leaks into the band."""


def velocity_conversion(unit: str) -> tuple[float, int] | None:
    """Return the factor from a unit to mm/s2 or mm/s, and how often to integrate; None if it is of neither.

    >>> velocity_conversion("m/s^2 (gravity included)"), velocity_conversion("Nm")
    ((1000.0, 1), None)
    """
    return VELOCITY_UNITS.get(plain_unit(unit))


def plain_unit(unit: str) -> str:
    """Return a unit without a remark in brackets after it.

    >>> plain_unit("m/s^2 (gravity included)")
    'm/s^2'
    """
    return unit.partition("(")[0].strip()


def rms_and_peak(samples: npt.NDArray[np.floating]) -> tuple[float, float]:
    """Return the RMS of samples about their mean, and the largest distance from it.

    >>> rms_and_peak(np.array([1.0, 3.0, 1.0, 3.0]))
    (1.0, 1.0)
    """
    [[rms, peak]] = rms_and_peaks(samples[None])
    return float(rms), float(peak)


def rms_and_peaks(samples: npt.NDArray[np.floating]) -> DoubleArray:
    """Return RMS and peak of every channel of (channels, samples), each to the bit as if it came alone."""
    deviation = np.asarray(samples, dtype=np.float64)
    deviation = deviation - deviation.mean(axis=1, keepdims=True)
    return np.stack([np.sqrt(np.square(deviation).mean(axis=1)), np.abs(deviation).max(axis=1)], axis=1)


def measurable_band(band: tuple[float, float], sample_rate: float) -> tuple[float, float] | None:
    """Return the part of a band that a sample rate allows; None if that is less than an octave.

    >>> measurable_band((10.0, 1000.0), 12_800.0), measurable_band((10.0, 1000.0), 1280.0)
    ((10.0, 1000.0), (10.0, 500.0))
    >>> measurable_band((10.0, 1000.0), 50.0)
    """
    low, high = band[0], min(band[1], sample_rate / RATE_SHARE)
    return (low, high) if high >= 2 * low else None


def velocity_rms(
    samples: npt.NDArray[np.floating], sample_rate: float, band: tuple[float, float], *, integrations: int = 1
) -> float | None:
    """Return the RMS within a band of a signal that is integrated; None if it has too few samples.

    The mean power of overlapping segments with a Hann window is weighted with (2 pi f)^-2 for each integration. The
    unit is that of the samples times seconds for each integration. The power of a line also stands in the two
    frequencies next to it, so the result for a sine of frequency f is too large by half the square of (resolution / f).
    """
    found = velocities_rms(samples[None], sample_rate, band, integrations=integrations)
    return None if found is None else found[0]


def velocities_rms(
    samples: npt.NDArray[np.floating], sample_rate: float, band: tuple[float, float], *, integrations: int = 1
) -> list[float] | None:
    """Return the same of every channel of (channels, samples), each to the bit as if it came alone."""
    count = samples.shape[1]
    length = min(count, round(SEGMENT_PERIODS / band[0] * sample_rate))
    if length * band[0] < MIN_PERIODS * sample_rate:
        return None
    window, weights, first = _spectral_weights(length, sample_rate, band, integrations)
    starts = np.linspace(0, count - length, 1 + ceil(2 * (count - length) / length)).round().astype(np.int64)
    segments = sliding_window_view(np.asarray(samples, dtype=np.float64), length, axis=1)[:, starts]
    spectra = np.fft.rfft((segments - segments.mean(axis=2, keepdims=True)) * window)[..., first : first + len(weights)]
    power = (np.square(spectra.real) + np.square(spectra.imag)).mean(axis=1)
    return [sqrt(float(row @ weights)) for row in power]


@lru_cache(maxsize=32)
def _spectral_weights(
    length: int, sample_rate: float, band: tuple[float, float], integrations: int
) -> tuple[DoubleArray, DoubleArray, int]:
    """Return the window of a segment, the weight of each frequency within the band, and the index of the first."""
    window = np.hanning(length + 1)[:-1]
    frequencies = np.arange(length // 2 + 1) * (sample_rate / length)
    inside = np.flatnonzero((frequencies >= band[0]) & (frequencies <= band[1]))
    # Twice, because the negative frequencies have the same power.
    scale = 2 / (length * float(np.square(window).sum()))
    weights = scale * np.power(2 * pi * frequencies[inside], -2.0 * integrations, dtype=np.float64)
    return window, weights, int(inside[0])
