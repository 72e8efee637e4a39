"""Levels of channels in frequency bands, beside what class and operating point of a recording predict for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cgsa.check.data_set import DataSummary, MeasuredChannel, level_factors
from cgsa.check.siblings import expected_values
from cgsa.check.spectrum import AverageSpectrum

DoubleArray = npt.NDArray[np.float64]
FEWEST_VALUES = 16
"""Values of a spectrum that is fine enough to be divided into bands."""


def channels_with_spectrum(data: DataSummary, name: str) -> list[MeasuredChannel]:
    """Return a channel of all recordings in which it varies and is long enough for a spectrum."""
    return [one for one in data.live_channels(name) if len(spectrum_of(one).power) > FEWEST_VALUES]


def spectrum_of(channel: MeasuredChannel) -> AverageSpectrum:
    """Return the spectrum of a channel, which must have been measured."""
    spectrum = channel.summary.spectrum
    return AverageSpectrum(np.empty(0), 1.0) if spectrum is None else spectrum


def band_edges(spectra: Sequence[AverageSpectrum], bands: int) -> DoubleArray:
    """Return the edges of bands of equal ratio that all spectra cover."""
    lowest = max(2 * one.step for one in spectra)
    highest = min((len(one.power) - 1) * one.step for one in spectra)
    return np.geomspace(lowest, highest, bands + 1)


def band_levels(channels: Sequence[MeasuredChannel], bands: int) -> DoubleArray:
    """Return the natural logarithm of the level in each of so many bands, (recordings, bands)."""
    spectra = [spectrum_of(one) for one in channels]
    edges = band_edges(spectra, bands)
    levels = np.nan_to_num(np.stack([one.band_levels(edges) for one in spectra]))
    return np.asarray(np.log(np.maximum(levels, np.finfo(np.float64).tiny)) / 2)


def expected_levels(channels: Sequence[MeasuredChannel], values: DoubleArray) -> DoubleArray:
    """Return what class and operating point predict for values of channels, (recordings, columns)."""
    return expected_values(values, level_factors([one.recording for one in channels]))
