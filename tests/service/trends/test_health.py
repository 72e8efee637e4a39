from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.decide.decision import UNKNOWN
from cgsa.events import NO_DATA, OFF, Diagnosis
from cgsa.service.trends.health import DEFINITION, HealthMean, batch_health
from tests.service.dashboard.examples import diagnosis


def literal_score(batches: list[Diagnosis]) -> float | None:
    """The health score, word by word as its definition has it."""
    counted = []
    for one in batches:
        state = one.state if one.state is not None else one.verdict
        if state in (NO_DATA, OFF):
            continue
        counted.append(0.0 if state == UNKNOWN else one.probabilities["health"])
    return 100 * sum(counted) / len(counted) if counted else None


BATCHES = st.builds(
    lambda state, fault: diagnosis(state=state, fault=fault),
    st.sampled_from(["health", "wear", UNKNOWN, NO_DATA, OFF]),
    st.floats(0, 1),
)


@given(st.lists(BATCHES, max_size=20))
def test_the_score_is_as_defined(batches: list[Diagnosis]) -> None:
    mean = HealthMean()
    for one in batches:
        mean.add(one)
    expected = literal_score(batches)
    if expected is None:
        assert mean.mean is None
    else:
        assert mean.mean is not None
        assert 100 * mean.mean == pytest.approx(expected)
    assert DEFINITION.startswith("The health score is 100 times the mean probability of the healthy class")


def test_a_batch_without_a_finite_probability_does_not_count() -> None:
    assert batch_health(replace(diagnosis(), probabilities={"health": math.nan})) is None
