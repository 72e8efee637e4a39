"""Averaged power spectrum of a channel, measured block by block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.signal import get_window

from cgsa.data.recording import FloatArray

DoubleArray = npt.NDArray[np.float64]
LONGEST_FRAME = 1 << 14
FEWEST_FRAMES = 4
"""Frames that a recording is long enough for, each overlapping the next by half."""
FRAMES_PER_BLOCK = 24
"""More of them would not change the mean enough to matter."""


@dataclass(frozen=True, eq=False)
class AverageSpectrum:
    """Mean power of each frequency over the frames of a recording."""

    power: DoubleArray
    """From 0 to half the sample rate; empty if the recording is too short."""
    step: float
    """Hz from one value to the next."""

    def band_levels(self, edges: DoubleArray) -> DoubleArray:
        """Return the mean power between each two successive frequencies; NaN where there is none."""
        if not len(self.power):
            return np.full(len(edges) - 1, np.nan)
        total = np.concatenate([[0.0], np.cumsum(self.power)])
        places = np.clip(np.round(edges / self.step).astype(int), 1, len(self.power))
        begins, ends = places[:-1], np.maximum(places[1:], places[:-1] + 1)
        ends = np.minimum(ends, len(self.power))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((total[ends] - total[begins]) / np.where(ends > begins, ends - begins, np.nan))


class SpectrumMeter:
    """Measures the spectrum of one channel from successive blocks; the first determines the length of the frames."""

    def __init__(self, sample_rate: float) -> None:
        self._rate = sample_rate
        self._window: DoubleArray | None = None
        self._sum: DoubleArray = np.empty(0)
        self._frames = 0

    def add(self, samples: FloatArray) -> None:
        """Add the next samples, which must be finite."""
        if self._window is None:
            longest = 2 * len(samples) // (FEWEST_FRAMES + 1)
            length = min(LONGEST_FRAME, 1 << max(4, longest.bit_length() - 1))
            self._window = np.asarray(get_window("hann", length), np.float64)
            self._sum = np.zeros(length // 2 + 1)
        length = len(self._window)
        if len(samples) < length:
            return
        count = min(FRAMES_PER_BLOCK, 2 * (len(samples) - length) // length + 1)
        begins = np.linspace(0, len(samples) - length, count).astype(int)
        for begin in begins:
            frame = samples[begin : begin + length].astype(np.float64)
            self._sum += np.abs(np.fft.rfft((frame - frame.mean()) * self._window)) ** 2
        self._frames += count

    def result(self) -> AverageSpectrum:
        """Return the mean over all frames so far."""
        if self._window is None or not self._frames:
            return AverageSpectrum(np.empty(0), 1.0)
        length = len(self._window)
        scale = float(np.square(self._window).sum()) * self._rate / 2
        return AverageSpectrum(self._sum / self._frames / scale, self._rate / length)
