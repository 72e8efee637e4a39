from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgsa.errors import BundleError
from cgsa.live.levels.limit_states import STATES, LimitStates


@dataclass
class LiteralLimit:
    """One limit, step by step."""

    duration: float
    hysteresis: float
    above: float = 0.0
    below: float = 0.0
    active: bool = False

    def update(self, value: float, limit: float, seconds: float) -> None:
        if isnan(limit):
            self.active = False
            return
        if isnan(value):
            return
        if value > limit:
            self.above += seconds
            if self.above >= self.duration:
                self.active = True
        else:
            self.above = 0.0
        if value < (1 - self.hysteresis) * limit:
            self.below += seconds
            if self.below >= self.duration:
                self.active = False
        else:
            self.below = 0.0


VALUES = st.sampled_from([nan, 0.0, 3.9, 4.2, 4.5, 5.0, 6.5, 7.0, 8.0])
STEPS = st.lists(st.tuples(VALUES, VALUES, st.sampled_from([0.5, 1.0, 3.0]), st.booleans()), min_size=1, max_size=40)


@settings(max_examples=100, deadline=None)
@given(steps=STEPS, duration=st.sampled_from([0.0, 1.0, 4.0]), hysteresis=st.sampled_from([0.0, 0.1]))
def test_equals_limits_taken_one_by_one(
    steps: list[tuple[float, float, float, bool]], duration: float, hysteresis: float
) -> None:
    states = LimitStates((1, 2), duration=duration, hysteresis=hysteresis)
    literal = [[LiteralLimit(duration, hysteresis) for _ in range(2)] for _ in range(2)]
    for first, second, seconds, limited in steps:
        limits = np.array([[[4.5, 7.0], [4.5, 7.0] if limited else [nan, nan]]])
        states.update(np.array([[first, second]]), limits, seconds)
        for quantity, value in enumerate((first, second)):
            for kind, limit in enumerate(literal[quantity]):
                limit.update(value, limits[0, quantity, kind], seconds)
        found = [2 if alarm.active else 1 if warning.active else 0 for warning, alarm in literal]
        assert states.states.tolist() == [found]


def test_a_level_must_persist_and_fall_clearly_below() -> None:
    states = LimitStates((1, 1), duration=3, hysteresis=0.1)
    course = [
        (5, "normal"),
        (5, "normal"),
        (5, "warning"),
        (4.4, "warning"),
        (8, "warning"),
        (8, "warning"),
        (8, "alarm"),
    ]
    course += [(6.0, "alarm"), (6.0, "alarm"), (6.0, "warning"), (1, "warning"), (nan, "warning"), (1, "warning")]
    for value, state in [*course, (1, "normal")]:
        states.update(np.array([[value]]), np.array([[[4.5, 7.0]]]), 1.0)
        assert STATES[states.states[0, 0]] == state


def test_a_resumed_state_continues_the_same() -> None:
    rng = np.random.default_rng(0)
    limits = np.array([[[4.5, 7.0]]])
    whole, part = (LimitStates((1, 1), duration=2, hysteresis=0.1) for _ in range(2))
    for _ in range(50):
        level = rng.uniform(2, 9, (1, 1))
        for one in (whole, part):
            one.update(level, limits, 1.0)
        resumed = LimitStates((1, 1), duration=2, hysteresis=0.1)
        resumed.load_state_dict(part.state_dict())
        part = resumed
        assert part.states.tolist() == whole.states.tolist()
    with pytest.raises(BundleError, match="does not fit"):
        LimitStates((2, 1), duration=2, hysteresis=0.1).load_state_dict(part.state_dict())
