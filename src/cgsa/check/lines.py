"""Spectra over the logarithm of the frequency, in which a wrong sample rate is a shift."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.ndimage import median_filter

from cgsa.check.bands import spectrum_of
from cgsa.check.data_set import MeasuredChannel
from cgsa.check.spectrum import AverageSpectrum

DoubleArray = npt.NDArray[np.float64]
PER_OCTAVE = 48
"""Values per octave: each is 1.5 % above the last."""
LOWEST_LINE = 4
"""Steps of the spectrum below the first value: below them, neighbouring values are the same."""
SMOOTHING = PER_OCTAVE | 1
"""Values that the broad course of a spectrum is a median of: an octave."""


def line_spectra(channels: Sequence[MeasuredChannel]) -> DoubleArray:
    """Return how far each spectrum is above its broad course, at frequencies of equal ratio that all of them have."""
    spectra = [spectrum_of(one) for one in channels]
    lowest = LOWEST_LINE * max(one.step for one in spectra)
    highest = min((len(one.power) - 1) * one.step for one in spectra)
    octaves = max(0.0, np.log2(highest / lowest))
    frequencies = lowest * 2 ** (np.arange(int(octaves * PER_OCTAVE) + 1) / PER_OCTAVE)
    return np.stack([lines_above_course(one, frequencies) for one in spectra])


def lines_above_course(spectrum: AverageSpectrum, frequencies: DoubleArray) -> DoubleArray:
    """Return the logarithm of a spectrum over its broad course, at some frequencies."""
    # The largest value up to the neighbouring frequencies, so that a line between two of them is not lost.
    half = 2 ** (0.5 / PER_OCTAVE)
    power = np.log(np.maximum(spectrum.power, np.finfo(np.float64).tiny))
    begins = np.round(frequencies / half / spectrum.step).astype(int)
    ends = np.minimum(np.maximum(np.round(frequencies * half / spectrum.step).astype(int), begins + 1), len(power))
    begins = np.minimum(begins, ends - 1)
    peaks = np.maximum.reduceat(power, np.stack([begins, ends], axis=1).ravel().clip(max=len(power) - 1))[::2]
    return np.asarray(peaks - median_filter(peaks, SMOOTHING, mode="nearest"))
