"""What a filter believes after a pause of the measurement."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.decide.filter import MAX_PAUSE_CHANGE, FilterConfig, StateFilter, onset_probability
from cgsa.nn.markov import transition_matrix

WINDOW = 0.08


def state_filter(hop: float = 0.25, states: int = 3) -> StateFilter:
    return StateFilter(FilterConfig(), states=states, window_seconds=WINDOW, hop=hop)


def windows(states: int, count: int, *, seed: int = 0) -> torch.Tensor:
    return torch.softmax(torch.randn(count, states, generator=torch.Generator().manual_seed(seed)), dim=1)


@given(st.integers(0, 200), st.integers(2, 5))
def test_a_short_pause_is_that_many_steps_of_the_chain(steps: int, states: int) -> None:
    """A literal twin: one transition per window length, without evidence."""
    one = state_filter(states=states)
    one.step(windows(states, 40))
    change = onset_probability(one.config, WINDOW)
    expected = one.alarm_posterior
    for _ in range(steps):
        expected = expected @ transition_matrix(change, one.config.repair, states)
    one.elapse(steps * WINDOW)
    assert torch.allclose(one.alarm_posterior, expected, atol=1e-9)


@given(st.floats(0, 1e9))
def test_no_pause_raises_an_alarm_by_itself(seconds: float) -> None:
    one = state_filter()
    one.step(torch.tensor([[0.98, 0.01, 0.01]]).repeat(500, 1))
    before = float(one.alarm_posterior[0])
    one.elapse(seconds)
    assert before * (1 - MAX_PAUSE_CHANGE) <= float(one.alarm_posterior[0]) <= before + 1e-12
    assert float(one.alarm_posterior.sum()) == pytest.approx(1.0)


def test_a_long_pause_lets_a_fault_be_found_sooner() -> None:
    faulty = torch.tensor([[0.2, 0.7, 0.1]]).repeat(400, 1)
    delays = []
    for seconds in (0.0, 3600.0):
        one = state_filter()
        one.step(torch.tensor([[0.98, 0.01, 0.01]]).repeat(500, 1))
        one.elapse(seconds)
        found = one.step(faulty).alarm_posterior[:, 0]
        delays.append(int((found < 0.5).double().argmax()))
    assert 0 < delays[1] < delays[0]


def test_the_first_window_after_a_pause_starts_from_the_newest_belief() -> None:
    one = state_filter()
    one.step(windows(3, 40))
    one.elapse(10.0)
    beliefs = one.state_dict()["verdicts"]
    assert torch.equal(beliefs, beliefs[:1].expand_as(beliefs))
