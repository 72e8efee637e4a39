from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from cgsa.decide.decision import UNKNOWN, Decision, DecisionMaker
from cgsa.decide.filter import FilterConfig
from cgsa.diagnosis.diagnoser import decide, diagnose, drive, record
from cgsa.diagnosis.trust import CHANCE, COVERED, FrozenModel, chances, trust_of, with_trust
from cgsa.online.base import StepOutput
from cgsa.online.cgsa import Cgsa
from cgsa.online.evidence import AGREES_WITH_SOURCE
from cgsa.online.reference import Reference
from cgsa.online.source import FrozenSource
from tests.machines import RATE, SPEC, bundle, stream_windows
from tests.online.models import varied_bundle


def says(*labels: int) -> torch.Tensor:
    return torch.nn.functional.one_hot(torch.tensor(labels), 3).float() * 0.7 + 0.1


def test_a_frozen_model_agrees_with_itself() -> None:
    outputs = [output for _, output in drive(FrozenSource(bundle()), stream_windows(), 100, FrozenModel(bundle()))]
    assert all(bool(output.evidence[AGREES_WITH_SOURCE].all()) for output in outputs)


def test_a_student_that_went_its_own_way_is_seen() -> None:
    source = varied_bundle()
    method = Cgsa(source, {"lr": 0.3, "tau": 1e9, "min_confidence": 0.0, "queue": 1})
    shares = [
        float(output.evidence[AGREES_WITH_SOURCE].float().mean())
        for _, output in drive(method, stream_windows(), 50, FrozenModel(source))
    ]
    assert shares[0] == 1
    assert min(shares) < 1


def test_the_chance_is_that_of_the_class_that_the_method_says() -> None:
    single = torch.tensor([[0.7, 0.1, 0.1, 0.1], [0.2, 0.5, 0.2, 0.1]])
    decided = Decision(single, single, single, torch.zeros(2, dtype=torch.bool))
    assert chances(says(0, 2), decided).tolist() == pytest.approx([0.7, 0.2])


def test_what_is_unknown_is_not_covered_and_leaves_no_chance() -> None:
    decision = DecisionMaker(FilterConfig(), bundle().manifest)
    assert UNKNOWN in decision.states
    limit = decision.distance_limit
    assert limit is not None
    for distance, covered in ((0.1 * limit, True), (10 * limit, False)):
        decision.reset()
        # Distances are joined, so it takes a while.
        decision.step(says(*[1] * 200), {"distance": torch.full((200,), distance)})
        output = StepOutput(says(*[1] * 20), evidence={"distance": torch.full((20,), distance)})
        seen = with_trust(output, decision.step(output.probabilities, output.evidence), decision, bundle().manifest)
        assert seen.evidence[COVERED].tolist() == [covered] * 20
        assert bool((seen.evidence[CHANCE] > 0.5).all()) == covered
        assert trust_of(seen).coverage == covered


def test_a_model_that_was_not_calibrated_knows_no_coverage() -> None:
    source = bundle()
    decision = DecisionMaker(FilterConfig(), replace(source.manifest, calibration=None))
    event = next(diagnose(FrozenSource(source), stream_windows(), source="here", batch_size=64, decision=decision))
    assert event.trust is not None
    assert event.trust.coverage is None
    assert event.trust.agreement is None
    assert event.trust.accuracy is not None


def test_without_a_calibration_a_window_is_covered_where_its_response_is_usual() -> None:
    manifest = replace(bundle().manifest, calibration=None, usual_responses=((-0.1, 0.2),))
    decision = DecisionMaker(FilterConfig(), manifest)
    output = StepOutput(says(0, 0, 0, 0), evidence={"response": torch.tensor([-0.2, -0.1, 0.2, 0.3])})
    seen = with_trust(output, decision.step(output.probabilities), decision, manifest)
    assert seen.evidence[COVERED].tolist() == [False, True, True, False]
    two = replace(manifest, usual_responses=((-0.1, 0.2), (0.0, 1.0)))
    both = {"response_speed": torch.tensor([0.1, 0.1]), "response_load": torch.tensor([0.5, 2.0])}
    seen = with_trust(StepOutput(says(0, 0), evidence=both), decision.step(says(0, 0)), decision, two)
    assert seen.evidence[COVERED].tolist() == [True, False]


@pytest.mark.parametrize(
    ("accepted", "evidence", "words"),
    [
        (None, {}, "never learns: 4 windows seen"),
        (torch.tensor([True, False, True, False]), {}, "learning: 2 of 4 windows trusted"),
        (torch.zeros(4, dtype=torch.bool), {}, "learning paused: 0 of 4 windows trusted"),
        (
            torch.zeros(4, dtype=torch.bool),
            {"ready": torch.ones(4, dtype=torch.bool), COVERED: torch.tensor([True, True, True, False])},
            "reference stands: 4 windows seen; 1 of them outside training",
        ),
    ],
)
def test_trust_says_in_words_whether_the_method_learns(
    accepted: torch.Tensor | None, evidence: dict[str, torch.Tensor], words: str
) -> None:
    assert trust_of(StepOutput(says(0, 0, 1, 1), accepted, evidence)).note == words


def test_trust_comes_with_every_batch_and_its_estimate_is_the_mean_of_the_chances() -> None:
    source, windows = bundle(), stream_windows()
    settings = {"commission_seconds": 10 * SPEC.step / RATE}
    decision = DecisionMaker(FilterConfig(), source.manifest)
    twin = FrozenModel(source)
    events = list(
        diagnose(Reference(source, settings), windows, source="here", batch_size=64, decision=decision, twin=twin)
    )
    trace = record(Reference(source, settings), windows, batch_size=64)
    decision.reset()
    found = chances(torch.from_numpy(trace.probabilities), decide(trace, decision))
    for event, chance in zip(events, found.split(64), strict=True):  # type: ignore[no-untyped-call]
        assert event.trust is not None
        assert event.trust.accuracy == pytest.approx(float(chance.mean()))
        assert event.trust.agreement is not None
        assert event.trust.coverage is not None


def test_a_method_that_tells_the_frozen_models_labels_is_believed() -> None:
    """A second pass through the frozen network would say nothing else."""
    source, told = varied_bundle(), []
    for labels in (Cgsa.source_labels, None):
        method = Cgsa(source, {"lr": 0.3, "tau": 1e9, "min_confidence": 0.0, "queue": 1})
        twin = FrozenModel(source, labels=labels)
        told.append(
            torch.cat([output.evidence[AGREES_WITH_SOURCE] for _, output in drive(method, stream_windows(), 50, twin)])
        )
    assert torch.equal(*told)
    assert not told[0].all()
