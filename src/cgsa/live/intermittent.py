"""Machines that are measured in bursts, such as ten seconds every hour: silence between two bursts is expected."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from cgsa.errors import ConfigError

LONGEST_PAUSE = 31 * 86_400.0
"""A block that claims to come after a longer pause must be continued by a second one before it is used."""


@dataclass(frozen=True)
class IntermittentConfig:
    """When a machine is measured."""

    every: float
    """Seconds from the begin of one measurement to the begin of the next."""
    settle: float = 5.0
    """Seconds without a block after which a measurement is complete, so that its last windows are diagnosed."""

    def __post_init__(self) -> None:
        if not 0 < self.every <= LONGEST_PAUSE:
            raise ConfigError(f"every {self.every:g}; expected seconds, more than 0 and at most {LONGEST_PAUSE:g}")
        if not 0 < self.settle < inf:
            raise ConfigError(f"settle {self.settle:g}; expected seconds, more than 0")


@dataclass(frozen=True)
class Measurements:
    """When a machine that is measured in bursts was measured, and when it will be."""

    every: float
    """Seconds from the begin of one measurement to the next."""
    begin: float | None
    """Begin of the newest measurement, in seconds of the stream; null before the first."""
    end: float | None
    """Its last sample so far."""
    next: float | None
    """When the next one is expected to begin."""

    @classmethod
    def of(cls, config: IntermittentConfig | None, begin: float | None, end: float) -> Measurements | None:
        """Return the measurements of a machine; None if it is measured all the time."""
        if config is None:
            return None
        if begin is None:
            return cls(config.every, None, None, None)
        return cls(config.every, begin, end, begin + config.every)
