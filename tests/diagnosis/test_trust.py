from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from cgsa.decide.decision import UNKNOWN, Decision, DecisionMaker
from cgsa.decide.filter import FilterConfig
from cgsa.diagnosis.diagnoser import Diagnoser
from cgsa.diagnosis.labelled import decide_afterwards, run_stream
from cgsa.diagnosis.trust import CHANCE, COVERED, SourceAgreement, chances, trust_of, with_trust
from cgsa.online.base import OnlineMethod, StepOutput
from cgsa.online.cgsa import Cgsa
from cgsa.online.evidence import AGREES_WITH_SOURCE
from cgsa.online.reference import Reference
from cgsa.online.source import FrozenSource
from tests.machines import RATE, SPEC, bundle, stream_windows
from tests.online.models import varied_bundle


def says(*labels: int) -> torch.Tensor:
    return torch.nn.functional.one_hot(torch.tensor(labels), 3).float() * 0.7 + 0.1


def agreement(method: OnlineMethod, compared: SourceAgreement) -> torch.Tensor:
    outputs = [compared.add_to(method.step(x), x) for _, x in stream_windows().batches(50)]
    return torch.cat([output.evidence[AGREES_WITH_SOURCE] for output in outputs])


def test_a_frozen_model_agrees_with_itself() -> None:
    assert bool(agreement(FrozenSource(bundle()), SourceAgreement(bundle())).all())


def test_a_student_that_drifts_away_is_noticed() -> None:
    source = varied_bundle()
    method = Cgsa(source, {"lr": 0.3, "tau": 1e9, "min_confidence": 0.0, "queue": 1})
    found = agreement(method, SourceAgreement(source))
    assert found[:50].all()
    assert not found.all()


def test_the_source_network_is_neither_copied_nor_used_without_need(monkeypatch: pytest.MonkeyPatch) -> None:
    source = varied_bundle()
    monkeypatch.setattr("cgsa.diagnosis.trust.deepcopy", pytest.fail)
    assert agreement(FrozenSource(source), SourceAgreement(source)).all()
    monkeypatch.setattr(source.network, "forward", pytest.fail)
    assert len(agreement(Cgsa(source), SourceAgreement(source, labels=Cgsa.source_labels)))


def test_the_chance_is_that_of_the_class_that_the_method_says() -> None:
    single = torch.tensor([[0.7, 0.1, 0.1, 0.1], [0.2, 0.5, 0.2, 0.1]])
    decided = Decision(single, single, single, torch.zeros(2, dtype=torch.bool))
    assert chances(says(0, 2), decided).tolist() == pytest.approx([0.7, 0.2])


def test_a_window_that_keeps_its_diagnosis_beyond_the_limit_is_not_covered() -> None:
    manifest = bundle().manifest
    assert manifest.calibration is not None
    limit = manifest.calibration.distance
    patient = replace(manifest, calibration=replace(manifest.calibration, unknown_distance=2 * limit))
    maker = DecisionMaker(FilterConfig(), patient)
    output = StepOutput(says(1, 1), evidence={"distance": torch.tensor([0.5, 1.5]) * limit})
    found = with_trust(output, maker.step(output.probabilities, output.evidence), maker, patient)
    assert found.evidence[COVERED].tolist() == [True, False]
    assert (found.evidence[CHANCE] > 0.5).all()


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
        assert trust_of(seen, windows=20).coverage == covered


def test_a_model_without_calibration_has_no_coverage() -> None:
    source = bundle()
    decision = DecisionMaker(FilterConfig(), replace(source.manifest, calibration=None))
    batch = Diagnoser(FrozenSource(source), decision).step(stream_windows().gather(slice(0, 64)))
    trust = trust_of(batch.output, windows=64)
    assert trust.coverage is None
    assert trust.agreement == 1.0
    assert trust.accuracy is not None


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
        (None, {}, "never learns: 4 windows diagnosed"),
        (torch.tensor([True, False, True, False]), {}, "learning: 2 of 4 windows trusted"),
        (torch.zeros(4, dtype=torch.bool), {}, "learning paused: 0 of 4 windows trusted"),
        (
            torch.zeros(4, dtype=torch.bool),
            {"ready": torch.ones(4, dtype=torch.bool), COVERED: torch.tensor([True, True, True, False])},
            "reference in use: 4 windows diagnosed; 1 of them outside training",
        ),
    ],
)
def test_trust_says_in_words_whether_the_method_learns(
    accepted: torch.Tensor | None, evidence: dict[str, torch.Tensor], words: str
) -> None:
    assert trust_of(StepOutput(says(0, 0, 1, 1), accepted, evidence), windows=4).note == words


def test_every_batch_has_a_trust_whose_accuracy_is_the_mean_of_the_chances() -> None:
    source, windows = bundle(), stream_windows()
    settings = {"commission_seconds": 10 * SPEC.step / RATE}
    decision = DecisionMaker(FilterConfig(), source.manifest)
    diagnoser = Diagnoser(Reference(source, settings), DecisionMaker(FilterConfig(), source.manifest))
    trusts = [trust_of(diagnoser.step(x).output, windows=len(x)) for _, x in windows.batches(64)]
    trace = run_stream(Diagnoser(Reference(source, settings)), windows, batch_size=64)
    found = chances(torch.from_numpy(trace.probabilities), decide_afterwards(trace, decision))
    for trust, begin in zip(trusts, range(0, len(found), 64), strict=True):
        assert trust.accuracy == pytest.approx(float(found[begin : begin + 64].mean()))
        assert trust.agreement is not None
        assert trust.coverage is not None


def test_labels_that_a_method_reports_for_the_source_model_are_used() -> None:
    """They equal those of a second pass through the source network."""
    source, found = varied_bundle(), []
    for labels in (Cgsa.source_labels, None):
        method = Cgsa(source, {"lr": 0.3, "tau": 1e9, "min_confidence": 0.0, "queue": 1})
        found.append(agreement(method, SourceAgreement(source, labels=labels)))
    assert torch.equal(*found)
    assert not found[0].all()
