"""Which limits are exceeded: a level must persist on one side of its limit before anything changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgsa.events import LevelState
from cgsa.metrics.accuracy import DoubleArray
from cgsa.nn.state import check_state

STATES: tuple[LevelState, ...] = get_args(LevelState)
"""In ascending order."""


class LimitStates:
    """The states of all limits, (channels, quantities, 2): warning and alarm.

    A limit becomes active once the level has been above it for ``duration`` seconds without interruption. It becomes
    inactive once the level has been below it by the share ``hysteresis`` for as long. Seconds without a level count as
    neither.
    """

    def __init__(self, shape: tuple[int, int], *, duration: float, hysteresis: float) -> None:
        self._duration, self._hysteresis = duration, hysteresis
        self._above, self._below = np.zeros((*shape, 2)), np.zeros((*shape, 2))
        self._active = np.zeros((*shape, 2), dtype=np.bool_)

    @property
    def states(self) -> npt.NDArray[np.int64]:
        """(channels, quantities): index into ``STATES``."""
        return np.where(self._active[..., 1], 2, np.where(self._active[..., 0], 1, 0))

    def update(self, levels: DoubleArray, limits: DoubleArray, seconds: float) -> None:
        """Process levels, (channels, quantities), that lasted for some seconds; NaN if there is no level or limit."""
        values = levels[..., None]
        known = np.isfinite(values) & np.isfinite(limits)
        above, below = values > limits, values < (1 - self._hysteresis) * limits
        self._above = np.where(known, np.where(above, self._above + seconds, 0.0), self._above)
        self._below = np.where(known, np.where(below, self._below + seconds, 0.0), self._below)
        started = known & above & (self._above >= self._duration)
        ended = known & below & (self._below >= self._duration)
        # A limit that a person has taken back is not exceeded any more.
        self._active = (self._active | started) & ~ended & np.isfinite(limits)

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next states depend on, as copies."""
        parts = {"above": self._above, "below": self._below, "active": self._active}
        return {name: torch.tensor(values) for name, values in parts.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state that :meth:`state_dict` returned."""
        check_state(state, self.state_dict(), "machine")
        self._above, self._below, self._active = (state[name].numpy().copy() for name in ("above", "below", "active"))
