from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.errors import ConfigError
from cgsa.nn.deviation import QUEUE, SHARES, TAU, UsualDeviation, preceding_means


@given(st.integers(1, 7), st.integers(0, 20), st.integers(1, 3), st.integers(0, 100))
def test_means_are_those_of_the_responses_before(count: int, more: int, conditions: int, seed: int) -> None:
    responses = torch.randn(
        count + more, conditions, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )
    literal = [responses[place - count : place].mean(dim=0) for place in range(count, count + more)]
    expected = torch.stack(literal) if literal else torch.empty(0, conditions, dtype=torch.float64)
    torch.testing.assert_close(preceding_means(responses, count), expected, rtol=1e-12, atol=1e-12)


def test_a_step_of_the_response_is_the_largest_deviation() -> None:
    steady, jumped = torch.zeros(2 * QUEUE, 1), torch.zeros(2 * QUEUE, 1)
    jumped[-1] = 0.3
    found = UsualDeviation.measure([steady, jumped])
    assert found is not None
    assert found.windows == 2 * QUEUE
    assert found.at(1.0) == pytest.approx(0.3)
    assert found.at(0.5) == 0.0
    assert found.share_beyond(0.31) == 0.0
    assert 0 < found.share_beyond(TAU) < 0.1


def test_of_several_conditions_the_largest_deviation_counts() -> None:
    both = torch.zeros(QUEUE + 1, 2)
    both[-1] = torch.tensor([0.1, -0.4])
    found = UsualDeviation.measure([both])
    assert found is not None
    assert found.quantiles == pytest.approx([0.4] * len(SHARES))
    assert found.spread[0] < found.spread[1]
    assert found.share_beyond(0.4) == 1.0


def test_recordings_that_do_not_fill_the_queue_say_nothing() -> None:
    assert UsualDeviation.measure([torch.zeros(QUEUE, 1)]) is None
    assert UsualDeviation.measure([]) is None


@given(st.lists(st.floats(0, 1), min_size=len(SHARES), max_size=len(SHARES)), st.floats(0, 1))
def test_the_share_beyond_a_quantile_is_the_rest(values: list[float], share: float) -> None:
    found = UsualDeviation(1, (0.1,), tuple(sorted(values)))
    at_least = 1 - share - 1e-9
    assert found.share_beyond(found.at(share)) >= at_least or len(set(values)) < len(values)


def test_quantiles_that_fall_are_refused() -> None:
    with pytest.raises(ConfigError, match="that do not fall"):
        UsualDeviation(1, (0.1,), tuple(1 - share for share in SHARES))


def test_the_line_says_what_the_gate_would_do() -> None:
    line = UsualDeviation(100, (0.2,), tuple(0.2 * share for share in SHARES)).describe()
    assert "at tau 0.05, residual guidance rejects 75% of the training windows" in line
    assert "median deviation 0.1, 2 of tau; spread of the response 0.2" in line
