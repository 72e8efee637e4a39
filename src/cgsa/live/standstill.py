"""Whether a machine runs or stands still, by the levels of its windows.

A window is *quiet* if every channel is far below its level in the quietest training recording. Quiet windows are not
diagnosed, whatever the state. The machine is off once they last, and runs again once its windows have been loud enough
for a while: a run-up is not diagnosed either.

A broken sensor must not look like a machine at rest. So a flat line begins no standstill, and windows with impossible
values never count as quiet; at standstill, a coarse sensor may well repeat its values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd, inf, isnan, nan

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

from cgsa.data.equal_samples import BoolArray
from cgsa.data.recording import FloatArray
from cgsa.data.windows import WindowSpec
from cgsa.errors import ConfigError
from cgsa.events import Operation
from cgsa.live.intake.quality import CLIPPED, DROP_OUT, FLAT_LINE, GOOD, WINDOW_REASONS, QualityFlags
from cgsa.metrics.accuracy import DoubleArray
from cgsa.nn.bundle import Manifest
from cgsa.nn.state import check_state
from cgsa.online.healthy_start import STANDSTILL_SHARE

LEAST_LEVEL = 1e-30
"""Lowest levels of the training below this count as this much: a channel may have been silent."""
MACHINE_OFF = "machine off"
"""Why a window was not diagnosed, in events and ledgers."""
MEASURED = [WINDOW_REASONS.index(reason) for reason in (GOOD, DROP_OUT, CLIPPED)]
"""Codes of windows whose level says whether a running machine is being switched off."""
MEASURED_AT_REST = [*MEASURED, WINDOW_REASONS.index(FLAT_LINE)]
"""The same while it is off."""


@dataclass(frozen=True)
class StandstillConfig:
    """When a machine counts as off; levels are shares of those in the quietest training recording."""

    detect: bool = True
    """Whether to detect standstill at all; models that do not know their lowest levels cannot."""
    off_below: float = STANDSTILL_SHARE
    """A window is quiet if all channels are below this share."""
    on_above: float = 0.5
    """The machine runs again when a channel is above this share."""
    off_seconds: float = 1.0
    """How long windows must be quiet before the machine is off."""
    on_seconds: float = 2.0
    """How long windows must be loud enough before the machine runs again and is diagnosed."""

    def __post_init__(self) -> None:
        if not 0 < self.off_below <= self.on_above < inf:
            raise ConfigError(
                f"off_below {self.off_below:g}, on_above {self.on_above:g}; expected shares above 0 in ascending order"
            )
        for name in ("off_seconds", "on_seconds"):
            if not 0 <= getattr(self, name) < inf:
                raise ConfigError(f"{name} {getattr(self, name):g}; expected seconds, 0 or more")


class StandstillDetector:
    """Follows one machine."""

    def __init__(self, config: StandstillConfig, manifest: Manifest) -> None:
        self._config, self._spec = config, manifest.window
        self._hop = manifest.window.step / manifest.sample_rate
        levels = manifest.lowest_levels if config.detect else None
        self._lowest = None if levels is None else np.maximum(levels, LEAST_LEVEL)
        self.reset()

    def reset(self) -> None:
        """Forget everything; the machine counts as running."""
        self.off = False
        self._pending, self._since, self._run_seconds, self._pause = 0.0, nan, 0.0, 0.0

    @property
    def operation(self) -> Operation | None:
        """What is known after the windows so far; None without levels to compare with."""
        if self._lowest is None:
            return None
        return Operation(
            "off" if self.off else "running", None if isnan(self._since) else self._since, self._run_seconds
        )

    def elapse(self, seconds: float) -> None:
        """Account for a pause of the measurement; it counts as run time if the machine runs before and after it."""
        if not self.off:
            self._pause += seconds

    def step(self, samples: FloatArray, flags: QualityFlags, times: DoubleArray) -> BoolArray:
        """Return which windows of a batch are at standstill; ``times`` are those at which its windows begin."""
        worst = flags.worst
        still = np.zeros(len(worst), dtype=np.bool_)
        if self._lowest is None:
            return still
        shares = (window_deviations(samples, self._spec) / self._lowest[:, None]).max(axis=0)
        for place, (code, share, time) in enumerate(zip(worst.tolist(), shares.tolist(), times.tolist(), strict=True)):
            measured = code in (MEASURED_AT_REST if self.off else MEASURED) and not isnan(share)
            still[place] = measured and self._is_still(share, time)
            if not self.off and not still[place]:
                self._run_seconds += self._hop + self._pause
            self._pause = 0.0
        return still

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next result depends on, as copies."""
        values = [float(self.off), self._pending, self._since, self._run_seconds, self._pause]
        return {"run": torch.tensor(values, dtype=torch.float64)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state that :meth:`state_dict` returned; one of a version without it starts afresh."""
        self.reset()
        if state:
            check_state(state, self.state_dict(), "standstill")
            off, self._pending, self._since, self._run_seconds, self._pause = state["run"].tolist()
            self.off = bool(off)

    def _is_still(self, share: float, time: float) -> bool:
        """Return whether a window is at standstill, after its level may have changed the state."""
        config = self._config
        quiet = share < config.off_below
        changes = share >= config.on_above if self.off else quiet
        self._pending = self._pending + self._hop if changes else 0.0
        wanted = config.on_seconds if self.off else config.off_seconds
        if changes and self._pending >= wanted:
            self._since = time + self._hop - (0.0 if self.off else self._pending)
            self.off, self._pending = not self.off, 0.0
        return quiet or self.off


def window_deviations(samples: FloatArray, spec: WindowSpec) -> DoubleArray:
    """Return the standard deviation of each channel in each window, (channels, windows); NaN if a sample is not finite.

    Windows that overlap share their sums: those of the pieces of which all windows consist.
    """
    values = np.where(np.isfinite(samples), samples, np.nan).astype(np.float64)
    piece = gcd(spec.length, spec.step)
    pieces = values[:, : values.shape[1] // piece * piece].reshape(len(values), -1, piece)
    # About the mean of its piece, no value loses digits to a large offset.
    means = pieces.mean(axis=2)
    squares = np.square(pieces - means[:, :, None]).sum(axis=2)
    count, hop = spec.length // piece, spec.step // piece
    means, squares = (sliding_window_view(part, count, axis=1)[:, ::hop] for part in (means, squares))
    between = piece * np.square(means - means.mean(axis=2, keepdims=True)).sum(axis=2)
    deviations: DoubleArray = np.sqrt((squares.sum(axis=2) + between) / spec.length)
    return deviations
