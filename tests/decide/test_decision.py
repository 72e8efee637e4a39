from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from cgsa.decide.decision import UNKNOWN, Decision
from cgsa.decide.filter import FilterConfig
from cgsa.errors import BundleError
from tests.machines import CLASSES, bundle

ABOUT = bundle().manifest
LIMIT = 4.0


def says(label: int, count: int, sure: float = 0.999) -> torch.Tensor:
    probabilities = torch.full((count, len(CLASSES)), (1 - sure) / (len(CLASSES) - 1))
    probabilities[:, label] = sure
    return probabilities


def test_a_fault_that_stays_ends_in_an_alarm_that_names_it() -> None:
    decision = Decision(FilterConfig(), ABOUT)
    before = decision.step(says(0, 50))
    after = decision.step(says(2, 200))
    assert not before.alarm.any()
    assert after.state.tolist() == [2] * 200
    assert bool(after.alarm[-1])
    assert int(after.alarm_state[-1]) == 2
    assert 0 < int(after.alarm.long().argmax()) < 100


def test_what_is_far_from_all_training_is_told_to_be_unknown() -> None:
    decision = Decision(FilterConfig(), ABOUT)
    near, far = torch.full((100,), 0.5 * LIMIT), torch.full((100,), 4 * LIMIT)
    assert decision.states == (*CLASSES, UNKNOWN)
    assert not decision.step(says(0, 100), {"distance": near}).alarm.any()
    decided = decision.step(says(1, 100), {"distance": far})
    # Distances are joined, so it takes a while.
    assert decided.state[-50:].tolist() == [len(CLASSES)] * 50
    assert int(decided.alarm_state[-1]) == len(CLASSES)


def test_without_a_calibration_nothing_is_unknown() -> None:
    decision = Decision(FilterConfig(), replace(ABOUT, calibration=None))
    assert decision.states == CLASSES
    assert decision.step(says(0, 10), {"distance": torch.full((10,), 99.0)}).verdict.shape == (10, len(CLASSES))


def test_windows_before_the_reference_count_for_nothing() -> None:
    one, other = Decision(FilterConfig(), ABOUT), Decision(FilterConfig(), ABOUT)
    early = one.step(says(1, 300), {"ready": torch.zeros(300, dtype=torch.bool)})
    assert early.state.tolist() == [0] * 300
    assert not early.alarm.any()
    assert torch.equal(one.step(says(2, 40)).verdict, other.step(says(2, 40)).verdict)


def test_a_decision_goes_on_from_its_state() -> None:
    whole, part = Decision(FilterConfig(), ABOUT), Decision(FilterConfig(), ABOUT)
    stream = torch.cat([says(0, 30), says(1, 90)])
    expected = torch.cat([whole.step(stream[:70]).belief, whole.step(stream[70:]).belief])
    first = part.step(stream[:70]).belief
    resumed = Decision(FilterConfig(), ABOUT)
    resumed.load_state_dict(part.state_dict())
    assert torch.equal(torch.cat([first, resumed.step(stream[70:]).belief]), expected)
    assert resumed.state_dict().keys() == part.state_dict().keys()
    with pytest.raises(BundleError, match="no standing"):
        resumed.load_state_dict({})
    resumed.reset()
    assert torch.equal(resumed.step(stream[:70]).belief, first)
