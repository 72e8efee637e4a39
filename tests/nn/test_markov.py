from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cgsa.nn.markov import backward_messages, forward_posteriors, transition_matrix


def some_updates(windows: int, states: int) -> Tensor:
    """A chain that changes rarely, with random evidence."""
    evidence = torch.rand(windows, states, generator=torch.Generator().manual_seed(windows), dtype=torch.float64)
    return transition_matrix(0.1, 1.0, states) * (evidence + 1e-4)[:, None, :]


def test_an_unknown_state_turns_out_to_be_a_fault_as_easily_as_health_does() -> None:
    matrix = transition_matrix(0.3, 0.1, 4, unknown=True)
    torch.testing.assert_close(matrix.sum(dim=1), torch.ones(4, dtype=torch.float64))
    assert matrix[3].tolist() == pytest.approx([0.01, 0.1, 0.1, 0.79])
    torch.testing.assert_close(matrix[:3], transition_matrix(0.3, 0.1, 4)[:3])


@given(st.integers(1, 40), st.integers(2, 5))
def test_messages_are_those_of_one_step_after_the_other(windows: int, states: int) -> None:
    """A literal twin: each message is one update before the one after it."""
    updates = some_updates(windows, states)
    message = torch.full((states,), 1 / states, dtype=torch.float64)
    expected = [message]
    for update in reversed(updates):
        message = update @ message
        message = message / message.sum()
        expected.append(message)
    torch.testing.assert_close(backward_messages(updates), torch.stack(expected[::-1]))


@given(st.integers(1, 40), st.integers(2, 5))
def test_beliefs_times_messages_agree_on_the_whole_stretch(windows: int, states: int) -> None:
    """Whichever window the forward and the backward pass meet at, the last window has the same smoothed states."""
    updates = some_updates(windows, states)
    start = torch.full((1, states), 1 / states, dtype=torch.float64)
    beliefs = torch.cat([start, forward_posteriors(start, updates[:, None])[:, 0]])
    smoothed = beliefs * backward_messages(updates)
    smoothed = smoothed / smoothed.sum(dim=1, keepdim=True)
    # The joint probability of two neighbouring states gives the same marginal from either side.
    for t, update in enumerate(updates):
        joint = beliefs[t][:, None] * update * backward_messages(updates)[t + 1]
        joint = joint / joint.sum()
        torch.testing.assert_close(joint.sum(dim=1), smoothed[t])
        torch.testing.assert_close(joint.sum(dim=0), smoothed[t + 1])
