"""Means of levels over blocks of time: a history that stays small, however long it is."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan, nan

import numpy as np
import torch
from torch import Tensor

from cgsa.metrics.accuracy import DoubleArray
from cgsa.nn.state import check_state


class BlockMeans:
    """The newest complete blocks, and the sums of the incomplete one.

    A block ends once it lasts for ``block_seconds``, or before a gap that is as long. NaN counts in no mean.
    """

    def __init__(self, shape: tuple[int, ...], *, block_seconds: float, max_blocks: int) -> None:
        self._shape, self._block_seconds, self._max_blocks = shape, block_seconds, max_blocks
        self._begin, self._end = nan, nan
        """Of the incomplete block."""
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.means: DoubleArray = np.full((self._max_blocks, *self._shape), nan)
        """(blocks, ...), oldest first; NaN before the first."""
        self.times: DoubleArray = np.full(self._max_blocks, nan)
        """The middle of each block, in seconds of the stream; NaN before the first."""
        self._begin_block()

    @property
    def complete(self) -> int:
        """Number of complete blocks."""
        return int(np.isfinite(self.times).sum())

    def add(self, levels: DoubleArray, begin: float, end: float) -> bool:
        """Add the levels of one batch, which begins and ends at these times; return whether a block was completed."""
        after_gap = begin > self._end + self._block_seconds
        if after_gap:
            self._complete_block()
        known = np.isfinite(levels)
        self._sum += np.where(known, levels, 0.0)
        self._count += known
        self._begin, self._end = begin if isnan(self._begin) else self._begin, end
        # A clock that was set back ends a block, too: it would not become long enough for hours.
        done = not self._begin <= end < self._begin + self._block_seconds
        if done:
            self._complete_block()
        return done or after_gap

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next block depends on, as copies."""
        newest = np.array([self._begin, self._end])
        parts = {"means": self.means, "times": self.times, "sum": self._sum, "count": self._count, "newest": newest}
        return {name: torch.tensor(values) for name, values in parts.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state that :meth:`state_dict` returned."""
        check_state(state, self.state_dict(), "machine")
        self.means, self.times, self._sum, self._count = (
            state[name].numpy().copy() for name in ("means", "times", "sum", "count")
        )
        self._begin, self._end = state["newest"].tolist()

    def _begin_block(self) -> None:
        self._sum, self._count = np.zeros(self._shape), np.zeros(self._shape, dtype=np.int64)
        self._begin, self._end = nan, nan

    def _complete_block(self) -> None:
        """Make the incomplete block the newest complete one, and forget the oldest."""
        mean = np.where(self._count > 0, self._sum / np.maximum(self._count, 1), nan)
        self.means = np.concatenate([self.means[1:], mean[None]])
        self.times = np.append(self.times[1:], (self._begin + self._end) / 2)
        self._begin_block()
