from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from cgsa.decide.decision import UNKNOWN, Decision, DecisionMaker
from cgsa.decide.filter import FilterConfig
from cgsa.errors import BundleError
from tests.machines import CLASSES, bundle

MANIFEST = bundle().manifest
LIMIT = 4.0


def probabilities_for(label: int, count: int, confidence: float = 0.999) -> torch.Tensor:
    probabilities = torch.full((count, len(CLASSES)), (1 - confidence) / (len(CLASSES) - 1))
    probabilities[:, label] = confidence
    return probabilities


def test_a_lasting_fault_raises_an_alarm_that_names_it() -> None:
    maker = DecisionMaker(FilterConfig(), MANIFEST)
    before = maker.step(probabilities_for(0, 50))
    after = maker.step(probabilities_for(2, 200))
    assert not before.alarm.any()
    assert after.state.tolist() == [2] * 200
    assert bool(after.alarm[-1])
    assert int(after.alarm_state[-1]) == 2
    assert 0 < int(after.alarm.long().argmax()) < 100


def test_windows_far_from_training_are_unknown() -> None:
    maker = DecisionMaker(FilterConfig(), MANIFEST)
    near, far = torch.full((100,), 0.5 * LIMIT), torch.full((400,), 4 * LIMIT)
    assert maker.states == (*CLASSES, UNKNOWN)
    assert not maker.step(probabilities_for(0, 100), {"distance": near}).alarm.any()
    decision = maker.step(probabilities_for(0, 400), {"distance": far})
    # Distances are smoothed, so it takes some windows.
    assert decision.state[50:].tolist() == [len(CLASSES)] * 350
    assert int(decision.alarm_state[-1]) == len(CLASSES)


def test_a_calibration_may_ask_for_more_distance_before_a_window_is_unknown() -> None:
    assert MANIFEST.calibration is not None
    patient = replace(MANIFEST, calibration=replace(MANIFEST.calibration, unknown_distance=3 * LIMIT))
    distance = torch.full((400,), 1.5 * LIMIT)
    for manifest, state in ((MANIFEST, len(CLASSES)), (patient, 1)):
        decision = DecisionMaker(FilterConfig(), manifest).step(probabilities_for(1, 400), {"distance": distance})
        assert decision.state[50:].tolist() == [state] * 350


def test_windows_that_are_briefly_far_from_training_raise_no_alarm() -> None:
    maker = DecisionMaker(FilterConfig(), MANIFEST)
    span = maker.state_dict()["distances"].shape[0]
    distance = torch.full((10 * span,), 0.8 * LIMIT)
    for begin in range(span, len(distance), span):
        distance[begin : begin + span // 8] = 1.5 * LIMIT
    decision = maker.step(probabilities_for(0, len(distance)), {"distance": distance})
    assert bool((decision.state == len(CLASSES)).any())
    assert not decision.alarm.any()


@pytest.mark.parametrize("sizes", [[1, 7, 92], [50, 50], [99, 1]])
def test_decisions_do_not_depend_on_the_batch_sizes(sizes: list[int]) -> None:
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.softmax(torch.randn(100, len(CLASSES), generator=generator), dim=1)
    distance = LIMIT * torch.rand(100, generator=generator) * 2
    whole = DecisionMaker(FilterConfig(), MANIFEST).step(probabilities, {"distance": distance})
    maker = DecisionMaker(FilterConfig(), MANIFEST)
    batches = zip(torch.split(probabilities, sizes), torch.split(distance, sizes), strict=True)
    parts = Decision.concatenate([maker.step(given, {"distance": far}) for given, far in batches])
    torch.testing.assert_close(parts.posterior, whole.posterior, rtol=0, atol=1e-9)
    torch.testing.assert_close(parts.alarm_posterior, whole.alarm_posterior, rtol=0, atol=1e-9)


def test_without_a_calibration_no_window_is_unknown() -> None:
    maker = DecisionMaker(FilterConfig(), replace(MANIFEST, calibration=None))
    assert maker.states == CLASSES
    assert maker.step(probabilities_for(0, 10), {"distance": torch.full((10,), 99.0)}).posterior.shape == (
        10,
        len(CLASSES),
    )


def test_windows_before_the_reference_do_not_count() -> None:
    one, other = DecisionMaker(FilterConfig(), MANIFEST), DecisionMaker(FilterConfig(), MANIFEST)
    early = one.step(probabilities_for(1, 300), {"ready": torch.zeros(300, dtype=torch.bool)})
    assert early.state.tolist() == [0] * 300
    assert not early.alarm.any()
    assert torch.equal(one.step(probabilities_for(2, 40)).posterior, other.step(probabilities_for(2, 40)).posterior)


@pytest.mark.parametrize("seed", range(4))
def test_windows_that_are_not_ready_keep_the_posterior_wherever_they_are(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    probabilities = torch.cat([probabilities_for(0, 40, 0.9), probabilities_for(1, 80, 0.99)])
    evidence = {
        "distance": LIMIT * torch.rand(120, generator=generator),
        "ready": torch.rand(120, generator=generator) < 0.6,
    }
    whole = DecisionMaker(FilterConfig(), MANIFEST).step(probabilities, evidence)
    maker = DecisionMaker(FilterConfig(), MANIFEST)
    single = Decision.concatenate(
        [
            maker.step(probabilities[one : one + 1], {name: values[one : one + 1] for name, values in evidence.items()})
            for one in range(120)
        ]
    )
    torch.testing.assert_close(whole.posterior, single.posterior, rtol=0, atol=1e-9)
    torch.testing.assert_close(whole.alarm_posterior, single.alarm_posterior, rtol=0, atol=1e-9)
    assert torch.equal(whole.alarm, single.alarm)
    assert bool(whole.alarm[-1])
    for place in (~evidence["ready"]).nonzero()[1:, 0].tolist():
        if place:
            assert torch.equal(whole.alarm_posterior[place], whole.alarm_posterior[place - 1])


def test_a_decision_maker_resumes_from_its_state() -> None:
    whole, part = DecisionMaker(FilterConfig(), MANIFEST), DecisionMaker(FilterConfig(), MANIFEST)
    stream = torch.cat([probabilities_for(0, 30), probabilities_for(1, 90)])
    expected = torch.cat([whole.step(stream[:70]).alarm_posterior, whole.step(stream[70:]).alarm_posterior])
    first = part.step(stream[:70]).alarm_posterior
    resumed = DecisionMaker(FilterConfig(), MANIFEST)
    resumed.load_state_dict(part.state_dict())
    assert torch.equal(torch.cat([first, resumed.step(stream[70:]).alarm_posterior]), expected)
    assert resumed.state_dict().keys() == part.state_dict().keys()
    with pytest.raises(BundleError, match="no standing"):
        resumed.load_state_dict({})
    resumed.reset()
    assert torch.equal(resumed.step(stream[:70]).alarm_posterior, first)


def test_a_machine_that_has_changed_is_not_healthy() -> None:
    maker = DecisionMaker(FilterConfig(), MANIFEST)
    changed, unchanged = torch.full((400,), 1.5), torch.full((100,), 0.5)
    assert maker.step(probabilities_for(0, 100), {"change": unchanged}).state.tolist() == [0] * 100
    decision = maker.step(probabilities_for(0, 400), {"change": changed})
    assert decision.state[100:].tolist() == [len(CLASSES)] * 300
    assert int(decision.alarm_state[-1]) == len(CLASSES)


def test_a_named_fault_keeps_its_name_however_far_the_machine_has_changed() -> None:
    maker = DecisionMaker(FilterConfig(), MANIFEST)
    decision = maker.step(probabilities_for(2, 400), {"change": torch.full((400,), 2.0)})
    assert decision.state[100:].tolist() == [2] * 300


def test_the_change_of_a_machine_delays_no_fault() -> None:
    generator = torch.Generator().manual_seed(5)
    probabilities = torch.softmax(torch.randn(300, len(CLASSES), generator=generator), dim=1)
    change = {"change": torch.rand(300, generator=generator) * 3}
    with_change = DecisionMaker(FilterConfig(), MANIFEST).step(probabilities, change)
    without = DecisionMaker(FilterConfig(), MANIFEST).step(probabilities)
    faults = slice(1, len(CLASSES))
    torch.testing.assert_close(with_change.posterior[:, faults], without.posterior[:, faults], rtol=0, atol=1e-12)
    assert bool((with_change.posterior[:, 0] <= without.posterior[:, 0] + 1e-12).all())


def test_changes_are_smoothed_over_batches() -> None:
    generator = torch.Generator().manual_seed(4)
    change = torch.rand(120, generator=generator) * 2
    whole = DecisionMaker(FilterConfig(), MANIFEST).step(probabilities_for(0, 120), {"change": change})
    maker, parts = DecisionMaker(FilterConfig(), MANIFEST), []
    for begin in range(0, 120, 40):
        resumed = DecisionMaker(FilterConfig(), MANIFEST)
        resumed.load_state_dict(maker.state_dict())
        parts.append(resumed.step(probabilities_for(0, 40), {"change": change[begin : begin + 40]}))
        maker = resumed
    torch.testing.assert_close(Decision.concatenate(parts).posterior, whole.posterior)


def test_a_state_of_an_older_version_knows_no_changes() -> None:
    maker = DecisionMaker(FilterConfig(), MANIFEST)
    old = {name: tensor for name, tensor in maker.state_dict().items() if name != "changes"}
    maker.step(probabilities_for(0, 50), {"change": torch.full((50,), 2.0)})
    maker.load_state_dict(old)
    assert (
        maker.state_dict()["changes"].tolist()
        == DecisionMaker(FilterConfig(), MANIFEST).state_dict()["changes"].tolist()
    )
