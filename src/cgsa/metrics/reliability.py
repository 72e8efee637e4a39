"""Reliability diagram: how often a class was right, by the probability that it was given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np

from cgsa.metrics.accuracy import BoolArray, DoubleArray

BINS = 10


@dataclass(frozen=True)
class Reliability:
    """Windows by their probability, in equal bins of [0, 1]; sums over windows, so that results can be added."""

    windows: tuple[int, ...]
    probability: tuple[float, ...]
    """Sum of the probabilities of each bin."""
    correct: tuple[int, ...]

    @classmethod
    def of(cls, probability: DoubleArray, correct: BoolArray, bins: int = BINS) -> Self:
        """Return the diagram of some windows; a bin includes its upper border, as in the calibration error.

        >>> Reliability.of(np.array([0.9, 0.95]), np.array([True, False]), bins=2)
        Reliability(windows=(0, 2), probability=(0.0, 1.85), correct=(0, 1))
        """
        borders = np.linspace(0.0, 1.0, bins + 1)
        index = np.clip(np.searchsorted(borders, probability, side="left") - 1, 0, bins - 1)
        return cls(
            tuple(np.bincount(index, minlength=bins).tolist()),
            tuple(np.bincount(index, weights=probability, minlength=bins).tolist()),
            tuple(np.bincount(index, weights=correct, minlength=bins).astype(np.int64).tolist()),
        )

    @classmethod
    def total(cls, several: Iterable[Self]) -> Self:
        """Return the diagram of all windows together."""
        found = list(several)
        return cls(
            tuple(map(sum, zip(*(one.windows for one in found), strict=True))),
            tuple(map(sum, zip(*(one.probability for one in found), strict=True))),
            tuple(map(sum, zip(*(one.correct for one in found), strict=True))),
        )

    @property
    def points(self) -> list[tuple[float, float, int]]:
        """Mean probability, share of right windows and number of windows of each bin that has any."""
        rows = zip(self.windows, self.probability, self.correct, strict=True)
        return [(total / count, right / count, count) for count, total, right in rows if count]

    @property
    def calibration_error(self) -> float | None:
        """Expected calibration error, eq. (14); None without windows."""
        rows = zip(self.probability, self.correct, strict=True)
        count = sum(self.windows)
        return sum(abs(right - total) for total, right in rows) / count if count else None
