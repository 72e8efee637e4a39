"""Landmarks of a channel: samples that identify a stretch of a signal wherever it turns up again.

A landmark is the largest or smallest sample of its neighbourhood. Its pattern says which of certain pairs of samples
around it is the larger one. Neither changes if the signal is shifted, cut, scaled or given another offset; so two
recordings with the same samples share landmarks with the same patterns, and finding them takes one sort of all patterns
instead of a comparison of all recordings. A smallest sample is treated as the largest one of the inverted signal, so
that a recording with the opposite sign is found, too.

All periods of a smooth signal, such as a current, have nearly the same patterns. What tells them apart is the noise, so
the landmarks of a smooth signal are those of its third difference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.ndimage import maximum_filter1d

from cgsa.data.recording import FloatArray

RADIUS = 48
"""A landmark is the extreme of this many samples on each side."""
REACH = 128
"""Samples on each side that its pattern compares."""
PAIRS = 64
_OFFSETS = np.random.default_rng(17).integers(-REACH, REACH + 1, size=(2, PAIRS))
"""The compared pairs; any choice does, as long as it is the same for all recordings."""
SMOOTH, ROUGH = 0.02, 0.1
"""Noise over standard deviation below which a signal is smooth, and above which it is not; between, it is both.

Copies of a signal may differ slightly in this ratio, and must still have landmarks of one kind in common.
"""
DIFFERENCES = 3
NOISE_GAIN = 20.0
"""Power of the third difference of white noise with power 1."""


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Places and patterns of the landmarks of a channel."""

    places: npt.NDArray[np.int64]
    """Sample of each."""
    patterns: npt.NDArray[np.uint64]


def noise_level(samples: npt.NDArray[np.floating]) -> float:
    """Return the RMS of what cannot be predicted from neighbouring samples; exact for white noise.

    >>> round(noise_level(np.sin(np.arange(1000) / 100)), 4)
    0.0
    """
    return float(np.std(np.diff(samples.astype(np.float64), DIFFERENCES)) / np.sqrt(NOISE_GAIN))


class LandmarkMeter:
    """Finds the landmarks of one channel in successive blocks; the first tells whether the signal is smooth."""

    def __init__(self) -> None:
        self._finders: list[_LandmarkFinder] | None = None

    def add(self, samples: FloatArray) -> None:
        """Add the next samples, which must be finite."""
        if self._finders is None:
            ratio = (
                noise_level(samples) / max(float(samples.std(dtype=np.float64)), 1e-300) if len(samples) > 8 else 1.0
            )
            orders = [order for order, chosen in ((0, ratio > SMOOTH), (DIFFERENCES, ratio < ROUGH)) if chosen]
            self._finders = [_LandmarkFinder(order) for order in orders]
        for finder in self._finders:
            finder.add(samples)

    def result(self) -> Landmarks:
        """Return the landmarks so far."""
        found = [one for finder in self._finders or () for one in finder.found]
        places = np.concatenate([np.empty(0, np.int64), *(one.places for one in found)])
        patterns = np.concatenate([np.empty(0, np.uint64), *(one.patterns for one in found)])
        return Landmarks(places, patterns)


class _LandmarkFinder:
    """Finds the landmarks of a signal or of its differences."""

    def __init__(self, order: int) -> None:
        self.found: list[Landmarks] = []
        self._order = order
        self._rest = np.empty(0, np.float32)
        self._begin = 0
        self._found: list[Landmarks] = []

    def add(self, samples: FloatArray) -> None:
        """Add the next samples, which must be finite."""
        known = np.concatenate([self._rest, samples])
        kept = 2 * REACH + self._order
        if len(known) > kept:
            # Differences of differences, in double precision: what is left of a smooth signal is small.
            searched = np.diff(known.astype(np.float64), self._order) if self._order else known
            for signal in (searched, -searched):
                found = landmarks_of(signal)
                self.found.append(Landmarks(found.places + self._begin, found.patterns))
            # A landmark needs REACH samples on each side; those without enough of them on the right come again.
            self._begin += len(known) - kept
            known = known[len(known) - kept :]
        self._rest = known


def landmarks_of(signal: npt.NDArray[np.floating]) -> Landmarks:
    """Return the largest samples of their neighbourhoods that have REACH samples on both sides."""
    largest = maximum_filter1d(signal, 2 * RADIUS + 1, mode="nearest")
    is_landmark = signal == largest
    # Of several equal samples in a row, the first.
    is_landmark[1:] &= signal[1:] != signal[:-1]
    is_landmark[:REACH] = is_landmark[len(signal) - REACH :] = False
    places = np.flatnonzero(is_landmark)
    first, second = (signal[places[:, None] + offsets] for offsets in _OFFSETS)
    bits = np.packbits(first > second, axis=1)
    return Landmarks(places.astype(np.int64), np.ascontiguousarray(bits).view(np.uint64).reshape(-1))
