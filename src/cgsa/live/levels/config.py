"""Settings of the levels of a machine."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from cgsa.errors import ConfigError
from cgsa.live.levels.limits import LimitRule


@dataclass(frozen=True)
class LevelConfig:
    """What is measured beside the model, and when it raises an alarm."""

    limits: str | tuple[str, ...] = ()
    """One line or several; see :mod:`cgsa.live.levels.limits`. Without any, levels raise no alarm."""
    duration: float = 10.0
    """Seconds a level must stay above a limit before the limit counts as exceeded, and below it until that is over."""
    hysteresis: float = 0.1
    """Share of a limit by which a level must fall below it."""
    band: tuple[float, float] = (10.0, 1000.0)
    """Frequencies of the velocity in Hz (ISO 20816-1); for machines below 600 rpm, the lower one is 2."""
    start_seconds: float = 60.0
    """How much of the start the limits ``automatic`` are relative to."""
    trend_hours: float = 24.0
    """How far back a trend reaches."""

    def __post_init__(self) -> None:
        problems = [
            (not 0 <= self.duration < inf, f"duration {self.duration:g}; expected seconds, 0 or more"),
            (not 0 <= self.hysteresis < 1, f"hysteresis {self.hysteresis:g}; expected a share from 0 to below 1"),
            (not 0 < self.start_seconds < inf, f"start_seconds {self.start_seconds:g}; expected more than 0"),
            (not 0 < self.trend_hours < inf, f"trend_hours {self.trend_hours:g}; expected more than 0"),
            (
                not 0 < self.band[0] < self.band[1] < inf,
                f"band {list(self.band)}; expected two frequencies in Hz in ascending order",
            ),
        ]
        for wrong, problem in problems:
            if wrong:
                raise ConfigError(problem)
        self.rules()

    def rules(self) -> tuple[LimitRule, ...]:
        """Return the limits that were asked for."""
        lines = (self.limits,) if isinstance(self.limits, str) else self.limits
        return tuple(map(LimitRule.parse, lines))
