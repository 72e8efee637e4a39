"""Mean and level of a channel over time, in equal intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cgsa.data.recording import FloatArray

DoubleArray = npt.NDArray[np.float64]
INTERVALS_PER_BLOCK = 64
SHORTEST_INTERVAL = 8


@dataclass(frozen=True, eq=False)
class IntervalLevels:
    """Mean and RMS about the mean of successive intervals."""

    length: int
    """Samples of each interval."""
    means: DoubleArray
    rms: DoubleArray

    def parts(self, count: int) -> IntervalLevels:
        """Return ``count`` to twice as many longer intervals; all of them if there are fewer."""
        joined = max(1, len(self.means) // count)
        used = len(self.means) // joined * joined
        means, squares = (
            values[:used].reshape(-1, joined).mean(axis=1) for values in (self.means, self.rms**2 + self.means**2)
        )
        return IntervalLevels(self.length * joined, means, np.sqrt(np.maximum(0.0, squares - means**2)))


class IntervalMeter:
    """Measures the levels of one channel from successive blocks; what is left at the end is dropped.

    The first block determines the length of the intervals.
    """

    def __init__(self) -> None:
        self._length = 0
        self._shift = 0.0
        self._rest = np.empty(0)
        self._means: list[DoubleArray] = []
        self._squares: list[DoubleArray] = []

    def add(self, samples: FloatArray) -> None:
        """Add the next samples, which must be finite."""
        if not self._length:
            self._length = max(SHORTEST_INTERVAL, len(samples) // INTERVALS_PER_BLOCK)
            # About the first mean: squares of a large offset would swallow the signal.
            self._shift = float(samples.mean(dtype=np.float64))
        joined = np.concatenate([self._rest, samples - np.float64(self._shift)])
        used = len(joined) // self._length * self._length
        intervals = joined[:used].reshape(-1, self._length)
        self._rest = joined[used:]
        self._means.append(intervals.mean(axis=1))
        self._squares.append(np.square(intervals).mean(axis=1))

    def result(self) -> IntervalLevels:
        """Return the levels so far."""
        means, squares = (np.concatenate([np.empty(0), *parts]) for parts in (self._means, self._squares))
        return IntervalLevels(self._length, means + self._shift, np.sqrt(np.maximum(0.0, squares - means**2)))
