"""The levels of a machine at its start, to which limits can be relative."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan

import numpy as np
from torch import Tensor

from cgsa.live.levels.block_means import BlockMeans
from cgsa.metrics.accuracy import DoubleArray

START_BLOCKS = 5
"""Blocks whose median is the level at the start: a disturbance of up to two of them does not count."""


class StartLevels:
    """Observes levels, (channels, quantities), until ``seconds`` of them are known."""

    def __init__(self, shape: tuple[int, int], *, seconds: float) -> None:
        self._blocks = BlockMeans(shape, block_seconds=seconds / START_BLOCKS, max_blocks=START_BLOCKS)
        self.levels: DoubleArray = np.full(shape, nan)
        """NaN until the start has been observed."""

    @property
    def share(self) -> float:
        """Share of the start that has been observed."""
        return self._blocks.complete / START_BLOCKS

    def restart(self) -> None:
        """Observe a new start."""
        self._blocks.clear()
        self._find()

    def add(self, levels: DoubleArray, begin: float, end: float) -> None:
        """Add the levels of one batch, which begins and ends at these times."""
        if self.share < 1 and self._blocks.add(levels, begin, end):
            self._find()

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the levels depend on, as copies."""
        return self._blocks.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state that :meth:`state_dict` returned."""
        self._blocks.load_state_dict(state)
        self._find()

    def _find(self) -> None:
        self.levels = np.full(self.levels.shape, nan)
        if self.share < 1:
            return
        for place in np.ndindex(*self.levels.shape):
            values = self._blocks.means[:, *place]
            known = values[np.isfinite(values)]
            # A sensor that was faulty for most of the start has shown no level to rely on.
            if 2 * len(known) >= START_BLOCKS:
                self.levels[place] = np.median(known)
