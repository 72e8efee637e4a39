"""Limits of levels, as a person asks for them.

A limit is asked for in one line, in the settings of a machine as on the command line:

=====================================  =========================================================================
line                                   meaning
=====================================  =========================================================================
``gearbox_z velocity 4.5 7.1``         channel, quantity, warning and alarm limit; ``-`` for none
``* rms 2 -``                          the same for every channel
``iso20816-3 group 2 rigid``           velocity limits of the standard for every channel that has a velocity
``gearbox_z iso20816-3 group 2 rigid``  the same for one channel
``automatic``                          2.5 and 6 times the level at the start, for RMS and velocity of every channel
``automatic 2 4``                      the same with other factors
=====================================  =========================================================================

If several lines concern the same level, one for its channel comes before one for every channel, and both come before
``automatic``; of two equal ones, the later counts.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan, nan
from typing import Self, get_args

import numpy as np

from cgsa.errors import ConfigError
from cgsa.events import LevelQuantity
from cgsa.live.levels.iso20816 import ISO_LIMITS
from cgsa.metrics.accuracy import DoubleArray

QUANTITIES: tuple[LevelQuantity, ...] = get_args(LevelQuantity)
EVERY = "*"
AUTOMATIC = "automatic"
START_FACTORS = (2.5, 6.0)
"""Warning and alarm limit as multiples of the level at the start: about one and two of the steps of 2.5 (8 dB) by which
the zones of ISO 10816-1 follow each other."""


@dataclass(frozen=True)
class LimitRule:
    """One line of limits."""

    line: str
    channel: str
    """``*`` for every channel."""
    quantities: tuple[LevelQuantity, ...]
    limits: tuple[float, float]
    """Warning and alarm limit; NaN for none."""
    of_start: bool = False
    """Whether the limits are factors of the level at the start."""

    @classmethod
    def parse(cls, line: str) -> Self:
        """Read a line."""
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise ConfigError(f"limit {line!r}: {error}") from error
        if words[:1] == [AUTOMATIC] and len(words) in {1, 3}:
            factors = _checked_limits(line, *words[1:]) if words[1:] else START_FACTORS
            return cls(line, EVERY, ("rms", "velocity"), factors, of_start=True)
        for channel, name in ((EVERY, " ".join(words)), (words[0] if words else "", " ".join(words[1:]))):
            if name in ISO_LIMITS:
                return cls(line, channel, ("velocity",), ISO_LIMITS[name])
        if len(words) != 4 or words[1] not in QUANTITIES:
            raise ConfigError(
                f"limit {line!r}; expected a channel, a quantity ({', '.join(QUANTITIES)}), a warning and an alarm "
                f"limit, such as 'gearbox_z velocity 4.5 7.1', or one of: {', '.join([AUTOMATIC, *ISO_LIMITS])}"
            )
        return cls(line, words[0], (words[1],), _checked_limits(line, *words[2:]))

    @property
    def rank(self) -> int:
        """Which of several rules for the same level counts: the one with the highest rank."""
        return 0 if self.of_start else 1 if self.channel == EVERY else 2


@dataclass(frozen=True, eq=False)
class LevelLimits:
    """The limits of all levels of a machine, (channels, quantities, 2); NaN for none."""

    fixed: DoubleArray
    of_start: DoubleArray
    """Factors of the level at the start."""

    @classmethod
    def of(cls, rules: Sequence[LimitRule], channels: Sequence[str], no_velocity: Mapping[str, str]) -> Self:
        """Return the limits that rules set; ``no_velocity`` says of each channel without a velocity why it has none."""
        fixed, of_start = (np.full((len(channels), len(QUANTITIES), 2), nan) for _ in range(2))
        for rule in sorted(rules, key=lambda rule: rule.rank):
            chosen = range(len(channels)) if rule.channel == EVERY else [_index(rule, channels)]
            set_any = False
            for channel in chosen:
                for quantity in rule.quantities:
                    if quantity == "velocity" and channels[channel] in no_velocity:
                        continue
                    set_any = True
                    place = channel, QUANTITIES.index(quantity)
                    fixed[place], of_start[place] = (nan, rule.limits) if rule.of_start else (rule.limits, nan)
            if not set_any:
                why = "; ".join(f"{channels[channel]}: {no_velocity[channels[channel]]}" for channel in chosen)
                raise ConfigError(f"limit {rule.line!r}: there is no velocity ({why})")
        return cls(fixed, of_start)

    def with_start(self, start: DoubleArray) -> DoubleArray:
        """Return all limits, given the levels at the start, (channels, quantities); NaN while they are not known."""
        return np.where(np.isnan(self.of_start), self.fixed, self.of_start * start[..., None])


def _index(rule: LimitRule, channels: Sequence[str]) -> int:
    if rule.channel not in channels:
        raise ConfigError(f"limit {rule.line!r}: no channel {rule.channel!r}; there are {', '.join(channels)}")
    return channels.index(rule.channel)


def _checked_limits(line: str, *words: str) -> tuple[float, float]:
    try:
        warning, alarm = (nan if word == "-" else float(word) for word in words)
    except ValueError as error:
        raise ConfigError(f"limit {line!r}: {error}; expected numbers, or - for none") from error
    given = [limit for limit in (warning, alarm) if not isnan(limit)]
    if not given or not all(0 < limit < inf for limit in given) or given != sorted(given):
        raise ConfigError(f"limit {line!r}; expected positive limits, the warning not above the alarm")
    return warning, alarm
