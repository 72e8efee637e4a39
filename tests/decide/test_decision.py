from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from cgsa.decide.decision import UNKNOWN, Decided, Decision
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
    near, far = torch.full((100,), 0.5 * LIMIT), torch.full((400,), 4 * LIMIT)
    assert decision.states == (*CLASSES, UNKNOWN)
    assert not decision.step(says(0, 100), {"distance": near}).alarm.any()
    decided = decision.step(says(0, 400), {"distance": far})
    # Distances are joined, so it takes a while.
    assert decided.state[50:].tolist() == [len(CLASSES)] * 350
    assert int(decided.alarm_state[-1]) == len(CLASSES)


def test_what_is_far_for_a_moment_now_and_then_raises_no_alarm() -> None:
    decision = Decision(FilterConfig(), ABOUT)
    span = decision.state_dict()["distances"].shape[0]
    distance = torch.full((10 * span,), 0.8 * LIMIT)
    for begin in range(span, len(distance), span):
        distance[begin : begin + span // 8] = 1.5 * LIMIT
    decided = decision.step(says(0, len(distance)), {"distance": distance})
    assert bool((decided.state == len(CLASSES)).any())
    assert not decided.alarm.any()


@pytest.mark.parametrize("sizes", [[1, 7, 92], [50, 50], [99, 1]])
def test_a_decision_is_the_same_whatever_the_batches(sizes: list[int]) -> None:
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.softmax(torch.randn(100, len(CLASSES), generator=generator), dim=1)
    distance = LIMIT * torch.rand(100, generator=generator) * 2
    whole = Decision(FilterConfig(), ABOUT).step(probabilities, {"distance": distance})
    decision = Decision(FilterConfig(), ABOUT)
    batches = zip(torch.split(probabilities, sizes), torch.split(distance, sizes), strict=True)
    parts = Decided.joined([decision.step(given, {"distance": far}) for given, far in batches])
    torch.testing.assert_close(parts.verdict, whole.verdict, rtol=0, atol=1e-9)
    torch.testing.assert_close(parts.belief, whole.belief, rtol=0, atol=1e-9)


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
