"""Which levels of a machine rise, how fast, and when they reach a limit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from cgsa.live.levels.block_means import BlockMeans
from cgsa.live.levels.trend import RobustTrend, robust_trend
from cgsa.metrics.accuracy import DoubleArray

BLOCKS = 48
"""Blocks of a history; with the usual length, one per half hour."""
MIN_SIGNIFICANCE = 3.0
"""Standard deviations; a rise by chance of independent blocks reaches it once in 700 histories."""
MIN_RISE = 0.1
"""A rise over the history by less than this share of the level is not reported, however certain it is."""


class LevelTrends:
    """Follows levels, (channels, quantities), over hours."""

    def __init__(self, shape: tuple[int, int], *, seconds: float) -> None:
        self._shape = shape
        self._history = BlockMeans(shape, block_seconds=seconds / BLOCKS, max_blocks=BLOCKS)
        self.rising: dict[tuple[int, int], RobustTrend] = {}
        """The trends of levels that rise, by channel and quantity; per second."""

    @property
    def observed(self) -> float:
        """Seconds from the first to the last block."""
        times = self._history.times
        return float(times[-1] - times[-self._history.complete]) if self._history.complete else 0.0

    def add(self, levels: DoubleArray, begin: float, end: float) -> bool:
        """Add the levels of one batch, which begins and ends at these times; return whether the trends are new."""
        if not self._history.add(levels, begin, end):
            return False
        self._find()
        return True

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next trends depend on, as copies."""
        return self._history.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state that :meth:`state_dict` returned."""
        self._history.load_state_dict(state)
        self._find()

    def _find(self) -> None:
        """Find the levels that rise."""
        self.rising = {}
        for place in np.ndindex(*self._shape):
            found = robust_trend(self._history.times, self._history.means[:, *place])
            if found is not None and self._rises(found):
                self.rising[place[0], place[1]] = found

    def _rises(self, trend: RobustTrend) -> bool:
        gained = trend.slope * self.observed
        return trend.significance >= MIN_SIGNIFICANCE and gained >= MIN_RISE * (trend.level - gained)
