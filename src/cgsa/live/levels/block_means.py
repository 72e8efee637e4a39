"""Means of levels over blocks of time: a history that stays small, however long it is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from cgsa.errors import BundleError
from cgsa.metrics.accuracy import DoubleArray


class BlockMeans:
    """The newest complete blocks, and the sums of the incomplete one.

    A block ends once it lasts for ``block_seconds``, or before a gap that is as long. NaN counts in no mean.
    """

    def __init__(self, shape: tuple[int, ...], *, block_seconds: float, max_blocks: int) -> None:
        self._shape, self._block_seconds, self._max_blocks = shape, block_seconds, max_blocks
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.means: DoubleArray = np.empty((0, *self._shape))
        """(blocks, ...), oldest first."""
        self.times: DoubleArray = np.empty(0)
        """The middle of each block, in seconds of the stream."""
        self._begin_empty_block()

    def add(self, levels: DoubleArray, begin: float, end: float) -> bool:
        """Add the levels of one batch, which begins and ends at these times; return whether a block was completed."""
        before = self._complete() if self._started and begin > self._span[1] + self._block_seconds else False
        known = np.isfinite(levels)
        self._sum += np.where(known, levels, 0.0)
        self._count += known
        self._span = (self._span[0], end) if self._started else (begin, end)
        self._started = True
        # A clock that was set back ends a block, too: it would never become long enough.
        done = end - self._span[0] >= self._block_seconds or end < self._span[0]
        return (self._complete() if done else False) or before

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next block depends on, as copies."""
        parts = {"means": self.means, "times": self.times, "sum": self._sum, "count": self._count}
        span = [*self._span, float(self._started)]
        return {
            **{name: torch.from_numpy(values.copy()) for name, values in parts.items()},
            "span": torch.tensor(span, dtype=torch.float64),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state that :meth:`state_dict` returned."""
        self.means, self.times, self._sum, self._count = (
            state[name].numpy().copy() for name in ("means", "times", "sum", "count")
        )
        if self.means.shape[1:] != self._shape or len(self.means) != len(self.times) or self._sum.shape != self._shape:
            raise BundleError(
                f"blocks of levels of shape {self.means.shape}; expected (blocks, {', '.join(map(str, self._shape))})"
            )
        begin, end, started = state["span"].tolist()
        self._span, self._started = (begin, end), bool(started)

    def _begin_empty_block(self) -> None:
        self._sum, self._count = np.zeros(self._shape), np.zeros(self._shape, dtype=np.int64)
        self._span, self._started = (0.0, 0.0), False

    def _complete(self) -> bool:
        """Make the incomplete block the newest complete one."""
        mean = np.where(self._count > 0, self._sum / np.maximum(self._count, 1), np.nan)
        self.means = np.concatenate([self.means, mean[None]])[-self._max_blocks :]
        self.times = np.append(self.times, sum(self._span) / 2)[-self._max_blocks :]
        self._begin_empty_block()
        return True
