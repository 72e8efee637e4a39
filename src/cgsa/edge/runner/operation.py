"""Observes whether the machine runs or stands still; windows at standstill are neither diagnosed nor learnt from."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .package import EdgePackage, Flags, Singles
from .windowing import deviations_by_window


class OperationObserver:
    """Follows the levels of windows: the machine is off once they are low for a while, and runs once they are not."""

    def __init__(self, package: EdgePackage) -> None:
        self._found: dict[str, Any] = package.description["standstill"]
        self._length, self._step, self._rate = package.length, package.step, package.sample_rate
        self._hop = self._step / self._rate
        lowest = self._found["lowest_levels"] if self._found["detect"] else None
        self._lowest = None if lowest is None else np.maximum(lowest, self._found["least_level"])
        self._since: float | None = None
        self._off, self._pending, self._run_seconds = False, 0.0, 0.0
        self.off_state: str = self._found["state"]
        """State of a machine that is off."""
        self.reason: str = self._found["reason"]
        """Why a window at standstill is not diagnosed."""

    def check(self, samples: Singles, codes: npt.NDArray[np.int8], begin: float) -> Flags:
        """Return which windows of a batch are at standstill; ``codes`` say what the quality gate found."""
        still = np.zeros(len(codes), dtype=np.bool_)
        if self._lowest is None:
            return still
        shares = (deviations_by_window(samples, self._length, self._step) / self._lowest[:, None]).max(axis=0)
        for place, (code, share) in enumerate(zip(codes.tolist(), shares.tolist(), strict=True)):
            measured = code in self._found["measured"]["off" if self._off else "running"] and not np.isnan(share)
            still[place] = measured and self._is_still(share, begin + place * self._step / self._rate)
            if not self._off and not still[place]:
                self._run_seconds += self._hop
        return still

    def status(self) -> dict[str, Any] | None:
        """Return what events say; None if the model does not know the levels of a running machine."""
        if self._lowest is None:
            return None
        state = "off" if self._off else "running"
        return {"state": state, "since": self._since, "run_seconds": self._run_seconds}

    def _is_still(self, share: float, time: float) -> bool:
        """Return whether a window is at standstill, after its level may have changed the state."""
        quiet: bool = share < self._found["off_below"]
        changes = share >= self._found["on_above"] if self._off else quiet
        self._pending = self._pending + self._hop if changes else 0.0
        if changes and self._pending >= self._found["on_seconds" if self._off else "off_seconds"]:
            self._since = time + self._hop - (0.0 if self._off else self._pending)
            self._off, self._pending = not self._off, 0.0
        return quiet or self._off
