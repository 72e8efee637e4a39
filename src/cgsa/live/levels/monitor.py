"""The monitor of a machine's levels: samples of a batch in; levels, exceeded limits and trends out.

It knows nothing of the model, so it also works while that is uncertain, waits or is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import isnan, nan

import numpy as np
import torch
from torch import Tensor

from cgsa.data.recording import FloatArray
from cgsa.events import ChannelLevels, LevelReport, LevelTrend, LimitedLevel
from cgsa.live.intake.quality import QualityFlags
from cgsa.live.levels.config import LevelConfig
from cgsa.live.levels.limit_states import STATES, LimitStates
from cgsa.live.levels.limits import QUANTITIES, LevelLimits
from cgsa.live.levels.meter import LevelMeter
from cgsa.live.levels.start import StartLevels
from cgsa.live.levels.texts import describe_level, describe_trend, name_of_level
from cgsa.live.levels.trends import LevelTrends
from cgsa.metrics.accuracy import DoubleArray
from cgsa.nn.bundle import Manifest
from cgsa.nn.state import add_prefix, select_prefix
from cgsa.online.healthy_start import STANDSTILL_SHARE

MAX_OUTLOOK = 10.0
"""When a limit will be reached is said for at most this many times the length of the history."""
DAY = 86_400.0


@dataclass(frozen=True)
class MonitoredBatch:
    """What the monitor says about a batch."""

    report: LevelReport
    notes: tuple[str, ...]
    """What is new: limits that are exceeded from now on, or no longer, and levels that rise from now on."""


class LevelMonitor:
    """Monitors the levels of one machine; ``batch_samples`` is the usual number of samples in a batch."""

    def __init__(self, config: LevelConfig, manifest: Manifest, *, batch_samples: int) -> None:
        self._config, self._channels = config, manifest.channels
        self._lowest = None if manifest.lowest_levels is None else np.array(manifest.lowest_levels)
        self._meter = LevelMeter(manifest, config.band, batch_samples=batch_samples)
        self._limits = LevelLimits.of(config.rules(), manifest.channels, self._meter.without_velocity)
        self._until = nan
        """End of the last batch."""
        self._reset()

    def observe_start(self) -> None:
        """Observe a new start, to which limits are relative, such as after a repair."""
        self._start.restart()

    def step(self, samples: FloatArray, flags: QualityFlags, begin: float, end: float) -> MonitoredBatch:
        """Measure the samples of a batch, (channels, samples), that begins and ends at these times."""
        levels = self._meter.measure(samples, flags)
        rising, states = set(self._trends.rising), self._states.states
        if not self._stands_still(levels):
            self._trends.add(levels, begin, end)
            self._start.add(levels, begin, end)
        limits = self._limits.with_start(self._start.levels)
        # Batches overlap by a window, and a clock that was set back must not stop the delays until it catches up.
        overlaps = begin < self._until < end
        self._states.update(levels, limits, end - (self._until if overlaps else begin))
        self._until = end
        limited = self._limited(levels, limits)
        trends = {place: self._trend(place, limits) for place in self._trends.rising}
        notes = [_change(one) for place, one in limited.items() if STATES.index(one.state) != states[place]]
        notes += [trend.text for place, trend in trends.items() if place not in rising]
        report = LevelReport(
            channels=tuple(
                ChannelLevels(name, self._meter.unit(channel, "rms"), *map(_rounded, levels[channel]))
                for channel, name in enumerate(self._channels)
            ),
            limits=tuple(limited.values()),
            trends=tuple(trends.values()),
            band=None if len(self._meter.without_velocity) == len(self._channels) else self._meter.band,
            note=self._note(),
        )
        return MonitoredBatch(report, tuple(notes))

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next report depends on, as copies."""
        return {
            "band": torch.tensor(self._config.band, dtype=torch.float64),
            "until": torch.tensor(self._until, dtype=torch.float64),
            **add_prefix("states", self._states.state_dict()),
            **add_prefix("trends", self._trends.state_dict()),
            **add_prefix("start", self._start.state_dict()),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state that :meth:`state_dict` returned.

        Limits may have changed since then. After a change of the band, or from a state of a version without levels, the
        monitor starts afresh.
        """
        self._reset()
        if state and tuple(state["band"].tolist()) == self._config.band:
            self._until = float(state["until"])
            self._states.load_state_dict(select_prefix("states", state))
            self._trends.load_state_dict(select_prefix("trends", state))
            self._start.load_state_dict(select_prefix("start", state))

    def _reset(self) -> None:
        """Forget everything that has been observed."""
        config, shape = self._config, (len(self._channels), len(QUANTITIES))
        self._states = LimitStates(shape, duration=config.duration, hysteresis=config.hysteresis)
        self._trends = LevelTrends(shape, seconds=3600 * config.trend_hours)
        self._start = StartLevels(shape, seconds=config.start_seconds)
        self._until = nan

    def _stands_still(self, levels: DoubleArray) -> bool:
        """Return whether every channel is far below its level in training; a machine at rest has no trend."""
        return self._lowest is not None and bool((levels[:, 0] < STANDSTILL_SHARE * self._lowest).all())

    def _limited(self, levels: DoubleArray, limits: DoubleArray) -> dict[tuple[int, int], LimitedLevel]:
        """Return the levels that have limits, by channel and quantity."""
        found = {}
        for place in product(range(len(self._channels)), range(len(QUANTITIES))):
            if np.isnan(limits[place]).all():
                continue
            (channel, kind), (warning, alarm) = place, map(_rounded, limits[place])
            unit = self._meter.unit(channel, QUANTITIES[kind])
            state = STATES[self._states.states[place]]
            found[place] = LimitedLevel(
                self._channels[channel], QUANTITIES[kind], _rounded(levels[place]), unit, warning, alarm, state
            )
        return found

    def _trend(self, place: tuple[int, int], limits: DoubleArray) -> LevelTrend:
        """Return a trend and the next limit it leads to."""
        found, quantity = self._trends.rising[place], QUANTITIES[place[1]]
        channel, unit = self._channels[place[0]], self._meter.unit(place[0], quantity)
        outlook = found.level + MAX_OUTLOOK * self._trends.observed * found.slope
        name, limit = next(
            (
                (name, limit)
                for name, limit in zip(STATES[1:], limits[place], strict=True)
                if found.level < limit <= outlook
            ),
            ("", nan),
        )
        seconds = (limit - found.level) / found.slope
        text = describe_trend(name_of_level(channel, quantity), DAY * found.slope, unit, name, seconds)
        per_day = float(f"{DAY * found.slope:.3g}")
        return LevelTrend(channel, quantity, unit, per_day, _rounded(limit), _rounded(seconds), text)

    def _note(self) -> str | None:
        """Return why a level or a limit is missing."""
        if np.isnan(self._limits.of_start).all() or self._start.share == 1:
            return self._meter.note
        start = f"automatic limits follow; {self._start.share:.0%} of the start observed"
        return start if self._meter.note is None else f"{self._meter.note}; {start}"


def _change(level: LimitedLevel) -> str:
    return f"{describe_level(level)}{'; returned to normal' if level.state == 'normal' else ''}"


def _rounded(value: float) -> float | None:
    """Return a value to five digits, as events state it; None if it is not a number."""
    return None if isnan(value) else float(f"{value:.5g}")
