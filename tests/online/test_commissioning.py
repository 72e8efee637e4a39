from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch

from cgsa.data.windows import overlapping_windows
from cgsa.errors import BundleError, ConfigError, DataError
from cgsa.events import CommissioningStatus
from cgsa.nn.bundle import Calibration, ModelBundle
from cgsa.nn.ensemble import Ensemble
from cgsa.nn.reference_shift import EVIDENT, SHARES
from cgsa.online.base import OnlineMethod
from cgsa.online.checks import check_method, example_batches
from cgsa.online.commissioned import MIN_WINDOWS, NO_REFERENCE, QUESTION_OPEN, UNSUITABLE
from cgsa.online.commissioning import Commissioning
from cgsa.online.evidence import AGREES_WITH_SOURCE
from cgsa.online.healthy_start import MAX_ROWS
from cgsa.online.reference import BEFORE_REFERENCE, IN_HEALTHY_SPAN, REFERENCE_READY
from cgsa.online.score_history import BLOCKS
from cgsa.online.source import FrozenSource
from tests.machines import (
    CLASSES,
    ENSEMBLE_SPEC,
    RATE,
    ToyLibrary,
    bundle,
    ensemble_bundle,
    ensemble_manifest,
    speed_bundle,
)

WANTED = 10
SETTINGS: dict[str, object] = {"seconds": WANTED * ENSEMBLE_SPEC.step / RATE, "healthy_start": True}
ASKING: dict[str, object] = {**SETTINGS, "healthy_start": False}
STRANGE = 1.6
"""Amplitude of a second line, near that of wear, which a strange machine has even if it is healthy."""


def stream(state: str, *, strange: float = 0.0, seconds: tuple[float, float] = (2.0, 3.5)) -> torch.Tensor:
    """Windows of a steady toy machine, as a view of their samples."""
    recording = ToyLibrary(seed=5).get(state, "low", severity="H", specimen=1)
    begin, end = (round(RATE * time) for time in seconds)
    time = np.arange(begin, end) / RATE
    line = strange * np.sin(2 * np.pi * 120 * time)
    samples = recording.signal[:, begin:end] + np.stack([line, 0.5 * line])
    return overlapping_windows(torch.from_numpy(samples.astype(np.float32)), ENSEMBLE_SPEC.length, ENSEMBLE_SPEC.step)


def run(method: Commissioning | FrozenSource, *parts: torch.Tensor, size: int = 8) -> torch.Tensor:
    outputs = [method.step(part[begin : begin + size]) for part in parts for begin in range(0, len(part), size)]
    return torch.cat([output.probabilities for output in outputs])


def same_states(a: Mapping[str, torch.Tensor], b: Mapping[str, torch.Tensor]) -> bool:
    """Unknown conditions are NaN."""
    return a.keys() == b.keys() and all(torch.equal(a[name].nan_to_num(), b[name].nan_to_num()) for name in a)


def status(method: Commissioning) -> CommissioningStatus:
    return method.commissioning


def verdicts(probabilities: torch.Tensor) -> list[str]:
    return [CLASSES[label] for label in sorted(set(probabilities.argmax(dim=1).tolist()))]


def mostly(probabilities: torch.Tensor) -> str:
    """The class of nearly all windows: a reference shifts as little as suffices, so that a few may stay wrong."""
    counts = torch.bincount(probabilities.argmax(dim=1))
    assert counts.max() >= 0.9 * len(probabilities)
    return CLASSES[int(counts.argmax())]


def without_distance() -> ModelBundle:
    """The toy ensemble without the range of its training: random windows are suitable for a reference."""
    return ModelBundle(ensemble_manifest(), ensemble_bundle().model, None)


@pytest.mark.parametrize("source", [ensemble_bundle(), without_distance(), speed_bundle()])
@pytest.mark.parametrize(("method", "settings"), [(Commissioning, SETTINGS), (Commissioning, {}), (FrozenSource, {})])
def test_the_contract_holds(source: ModelBundle, method: type[OnlineMethod], settings: dict[str, object]) -> None:
    check_method(method, source, settings)


@pytest.mark.parametrize(
    ("source", "settings", "expected"),
    [
        (ensemble_bundle(), SETTINGS, "waiting"),
        (without_distance(), SETTINGS, "done"),
        (without_distance(), {}, "question"),
    ],
)
def test_methods_wait_and_ask_under_the_contract_checks(
    source: ModelBundle, settings: dict[str, object], expected: str
) -> None:
    method = Commissioning(source, settings)
    for x in example_batches(source):
        method.step(x)
    assert status(method).state == expected
    # The model only doubts that random windows are healthy: a reference needs a person who confirms them.
    assert not status(method).reference
    if expected == "question":
        method.confirm_healthy()
        assert status(method).reference


def test_a_machine_that_appears_healthy_gets_the_verdicts_of_the_frozen_model() -> None:
    method, frozen = Commissioning(ensemble_bundle(), SETTINGS), FrozenSource(ensemble_bundle())
    parts = [stream("health"), stream("wear"), stream("crack"), stream("health", strange=STRANGE)]
    found = run(method, *parts)
    assert status(method).state == "done"
    assert not method.state_dict()["memory.references.shifts"].any()
    assert torch.equal(found, run(frozen, *parts))
    assert verdicts(found[:WANTED]) == ["health"]


def test_a_healthy_machine_that_appears_faulty_is_called_healthy_after_its_start() -> None:
    method, frozen = Commissioning(ensemble_bundle(), SETTINGS), FrozenSource(ensemble_bundle())
    start, later = stream("health", strange=STRANGE).split([WANTED, 76])  # type: ignore[no-untyped-call]
    assert mostly(run(frozen, start, later)) == "wear"
    # Until the reference stands, the diagnosis is that of the frozen model.
    assert torch.equal(run(method, start, size=WANTED), run(frozen, start, size=WANTED))
    assert method.state_dict()["memory.references.shifts"].any()
    found = run(method, later)
    assert mostly(found) == "health"
    # A real fault of this machine is still one.
    assert mostly(run(method, stream("crack", strange=STRANGE))) != "health"


def literal_shift(ensemble: Ensemble, start: torch.Tensor) -> torch.Tensor:
    """The shift, one member and class at a time."""
    scores = ensemble.member_scores(ensemble.extract(start))
    count, members, classes = scores.shape

    def mean_votes(shift: np.ndarray) -> np.ndarray:
        total = np.zeros(classes)
        for window in scores.double().numpy() - shift:
            combined = np.zeros(classes)
            for weight, member in zip(ensemble.pool.tolist(), window, strict=True):
                logs = member - member.max() - np.log(np.exp(member - member.max()).sum())
                combined += weight * np.maximum(logs, -10.0)
            total += combined - combined.max() - np.log(np.exp(combined - combined.max()).sum())
        return total / count

    votes = mean_votes(np.zeros((members, classes)))
    if np.exp(votes[0]) / np.exp(votes).sum() >= EVIDENT:
        return torch.zeros(members, classes)
    healthy = ensemble.healthy_scores().double().numpy()
    whole = np.zeros((members, classes))
    for member in range(members):
        for label in range(classes):
            ordered = sorted(scores[:, member, label].tolist())
            whole[member, label] = ordered[(count - 1) // 2] - healthy[member, label]
    for share in SHARES:
        if mean_votes(share * whole).argmax() == 0:
            return torch.from_numpy(share * whole).float()
    return torch.from_numpy(whole).float()


@pytest.mark.parametrize("strange", [0.0, 0.6, 1.0, 3.0])
@pytest.mark.parametrize("state", ["health", "crack"])
def test_the_shift_against_loops(state: str, strange: float) -> None:
    source, start = ensemble_bundle(), stream(state, strange=strange)[:WANTED]
    method = Commissioning(source, SETTINGS)
    method.step(start)
    expected = literal_shift(source.require_ensemble(), start)
    torch.testing.assert_close(method.state_dict()["memory.references.shifts"][0], expected, rtol=1e-3, atol=1e-3)
    assert bool(expected.any()) == (state != "health" or strange > 1.0)


def test_the_shift_is_that_of_the_first_windows_however_they_come() -> None:
    x = stream("health", strange=STRANGE)[:24]
    wanted = literal_shift(ensemble_bundle().require_ensemble(), x[:WANTED])
    for sizes in ([24], [4, 4, 4, 12], [1] * 24):
        method = Commissioning(ensemble_bundle(), SETTINGS)
        accepted = torch.cat([method.step(part).accepted for part in x.split(sizes)])  # type: ignore[misc, no-untyped-call]
        assert accepted.tolist() == [True] * WANTED + [False] * 14
        torch.testing.assert_close(method.state_dict()["memory.references.shifts"][0], wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("strange", [0.0, STRANGE])
def test_nothing_after_the_span_changes_the_method(strange: float) -> None:
    """A slow fault and a manipulated interval leave the reference unchanged."""
    method = Commissioning(ensemble_bundle(), SETTINGS)
    method.step(stream("health", strange=strange)[:WANTED])
    before = method.state_dict()
    for number in range(1, 8):
        method.step(stream(CLASSES[number % 3], strange=number / 2))
    after = method.state_dict()
    assert before.keys() == after.keys()
    assert same_states(before, after)


def test_a_step_without_learning_changes_nothing() -> None:
    method, x = Commissioning(ensemble_bundle(), SETTINGS), stream("health", strange=STRANGE)
    for commissioned in (False, True):
        before = method.state_dict()
        output = method.step(x, learn=False)
        assert output.accepted is not None
        assert not output.accepted.any()
        assert output.evidence["ready"].all() == commissioned
        after = method.state_dict()
        assert same_states(before, after)
        method.step(x)


def test_a_reset_forgets_the_reference() -> None:
    method, x = Commissioning(ensemble_bundle(), SETTINGS), stream("health", strange=STRANGE)
    fresh = method.state_dict()
    first = run(method, x)
    assert verdicts(first[-20:]) == ["health"]
    method.reset()
    again = method.state_dict()
    assert same_states(fresh, again)
    assert torch.equal(run(method, x), first)


def test_evidence_says_what_the_frozen_model_thinks_and_how_far_a_window_is() -> None:
    source, x = ensemble_bundle(), stream("health", strange=STRANGE)
    method = Commissioning(source, SETTINGS)
    before, after = method.step(x[:WANTED]), method.step(x[WANTED:])
    assert before.evidence[AGREES_WITH_SOURCE].all()
    assert after.evidence[AGREES_WITH_SOURCE].double().mean() < 0.1
    assert source.known is not None
    features = source.require_ensemble().extract(x[WANTED:])
    distance, question = source.known(features)
    assert torch.equal(after.evidence["distance"], distance)
    assert torch.equal(after.evidence["question"], question)
    assert "distance" not in Commissioning(without_distance(), SETTINGS).step(x).evidence


def test_every_window_has_a_reason() -> None:
    def found(method: Commissioning, x: torch.Tensor, sizes: list[int]) -> list[str]:
        result = []
        for part in x.split(sizes):  # type: ignore[no-untyped-call]
            code, texts = method.reasons(method.step(part))
            result += [texts[number] for number in code.tolist()]
        return result

    method = Commissioning(ensemble_bundle(), SETTINGS)
    x = torch.cat([1e-3 * stream("health")[:8], stream("health")[:24]])
    assert found(method, x, [8, 12, 12]) == (
        [UNSUITABLE] * 8 + [IN_HEALTHY_SPAN] * WANTED + [BEFORE_REFERENCE] * 2 + [REFERENCE_READY] * 12
    )
    asking = Commissioning(ensemble_bundle(), ASKING)
    assert found(asking, stream("wear")[:24], [12, 12])[12:] == [QUESTION_OPEN] * 12
    asking.mark_faulty()
    assert found(asking, stream("wear")[:4], [4]) == [NO_REFERENCE] * 4


def still(count: int) -> torch.Tensor:
    """Windows of a machine that stands still."""
    return 1e-3 * stream("health")[:count]


def far(count: int) -> torch.Tensor:
    """Windows of a signal that is far from all training data."""
    return 10 * stream("health")[:count]


@pytest.mark.parametrize("settings", [SETTINGS, ASKING])
@pytest.mark.parametrize(("bad", "cause"), [(still, "standstill"), (far, "outside training")])
def test_an_unsuitable_start_is_waited_out(
    settings: dict[str, object], bad: Callable[[int], torch.Tensor], cause: str
) -> None:
    method = Commissioning(ensemble_bundle(), settings)
    good = stream("health")
    method.step(good[: WANTED - 2])
    assert (status(method).cause, status(method).observed) == (None, 0.8)
    output = method.step(bad(8))
    assert output.accepted is not None
    assert not output.accepted.any()
    # What cannot be a healthy start is reported by the frozen model, also if the start is known to be healthy.
    assert output.evidence["ready"].all()
    found = status(method)
    assert (found.state, found.cause, found.observed) == ("waiting", cause, 0.0)
    assert cause.partition(" ")[0] in found.text or "far from all training data" in found.text
    method.step(good[: WANTED - 1])
    assert (status(method).state, status(method).cause) == ("waiting", None)
    method.step(good[:1])
    assert status(method).state == "done"
    assert not status(method).reference


def test_a_few_bad_windows_are_left_out_of_the_span() -> None:
    method, good = Commissioning(ensemble_bundle(), ASKING), stream("health")
    output = method.step(torch.cat([good[:6], far(1), good[6:10]]))
    assert output.accepted is not None
    assert output.accepted.tolist() == [True] * 6 + [False] + [True] * 4
    assert status(method).state == "done"


def test_rejected_windows_start_the_span_anew() -> None:
    method, good = Commissioning(ensemble_bundle(), ASKING), stream("health")
    method.step(good[: WANTED - 1])
    method.interrupt()
    assert (status(method).cause, status(method).observed) == ("sensor fault", 0.0)
    method.step(good[:WANTED])
    assert status(method).state == "done"
    method.interrupt()
    assert status(method).state == "done"


def moving(count: int) -> torch.Tensor:
    """Windows of a machine whose level rises."""
    return torch.linspace(-0.7, 0.7, count).exp()[:, None, None] * stream("health")[:count]


@pytest.mark.parametrize("settings", [SETTINGS, ASKING])
def test_a_start_that_moves_is_observed_anew(settings: dict[str, object]) -> None:
    method = Commissioning(ensemble_bundle(), settings)
    method.step(moving(WANTED))
    assert (status(method).state, status(method).cause) == ("waiting", "not steady")
    method.step(stream("health")[:4])
    assert status(method).cause == "not steady"
    method.step(stream("health")[4:WANTED])
    assert (status(method).state, status(method).cause) == ("done", None)


def test_an_answer_in_advance_is_about_the_first_steady_start_only() -> None:
    method, frozen = Commissioning(ensemble_bundle(), SETTINGS), FrozenSource(ensemble_bundle())
    assert not method.step(moving(WANTED)).evidence["ready"].any()
    # The machine has changed in the meantime, so the model as trained reports, and its alarms count.
    output = method.step(stream("wear")[:WANTED])
    assert output.evidence["ready"].all()
    assert torch.equal(output.probabilities, frozen.step(stream("wear")[:WANTED]).probabilities)
    assert status(method).state == "question"


def test_a_start_whose_state_jumps_is_not_steady() -> None:
    method = Commissioning(ensemble_bundle(), ASKING)
    method.step(torch.cat([stream("health")[: WANTED // 2], stream("wear")[: WANTED // 2]]))
    assert status(method).cause == "not steady"


def test_a_faulty_start_is_a_question_and_the_frozen_model_reports() -> None:
    method, frozen = Commissioning(ensemble_bundle(), ASKING), FrozenSource(ensemble_bundle())
    x = stream("wear")
    found = run(method, x)
    assert status(method) == CommissioningStatus(
        "question", None, "question: looks like wear; confirm healthy, or mark as faulty", 1.0, reference=False
    )
    assert torch.equal(found, run(frozen, x))
    assert method.step(x).evidence["ready"].all()
    method.mark_faulty()
    assert status(method).state == "faulty"
    assert torch.equal(run(method, x), run(frozen, x))
    with pytest.raises(DataError, match="no question is open"):
        method.mark_faulty()
    with pytest.raises(DataError, match="no question is open"):
        method.confirm_healthy()


def test_a_confirmed_start_gives_the_reference_of_a_start_that_is_known_to_be_healthy() -> None:
    x = stream("health", strange=STRANGE)
    known, asked = Commissioning(ensemble_bundle(), SETTINGS), Commissioning(ensemble_bundle(), ASKING)
    known.step(x[:WANTED])
    asked.step(x[:WANTED])
    assert status(asked).state == "question"
    run(asked, x)
    asked.confirm_healthy()
    assert known.state_dict()["memory.references.shifts"].any()
    assert torch.equal(known.state_dict()["memory.references.shifts"], asked.state_dict()["memory.references.shifts"])
    assert mostly(run(asked, x)) == "health"
    assert mostly(run(asked, stream("crack", strange=STRANGE))) != "health"


def test_the_view_of_the_frozen_model_counts_where_the_machine_returns_to_something_known() -> None:
    method, frozen = Commissioning(ensemble_bundle(), SETTINGS), FrozenSource(ensemble_bundle())
    start, known = stream("health", strange=2 * STRANGE), stream("wear")
    method.step(start[:WANTED])
    assert status(method).reference
    output = method.step(known)
    weights = [
        1 / (1 + (0.5 * float(method.state_dict()["memory.references.distances"][0]) / distance) ** 20)
        for distance in output.evidence["distance"].double().tolist()
    ]
    assert min(weights) < 0.1
    ensemble = ensemble_bundle().require_ensemble()
    shifted = ensemble.member_scores(ensemble.extract(known)) - method.state_dict()["memory.references.shifts"]
    own, general = torch.softmax(ensemble.combine(shifted), dim=1), frozen.predict(known)
    for number, weight in enumerate(weights):
        expected = weight * own[number] + (1 - weight) * general[number]
        torch.testing.assert_close(output.probabilities[number], expected, rtol=1e-3, atol=1e-3)


def test_the_question_can_be_answered_before_it_is_asked() -> None:
    method = Commissioning(ensemble_bundle(), ASKING)
    method.confirm_healthy()
    method.step(stream("health", strange=STRANGE)[:WANTED])
    assert (status(method).state, status(method).reference) == ("done", True)


def test_a_start_beyond_the_known_is_a_question_whatever_its_state() -> None:
    near = replace(ensemble_bundle().manifest, calibration=Calibration(3, 0.9, 1.0, 0.8))
    method = Commissioning(replace(ensemble_bundle(), manifest=near), ASKING)
    method.step(stream("health")[:WANTED])
    assert "unlike every machine of the training, most like health" in status(method).text
    method.confirm_healthy()
    assert (status(method).state, status(method).reference) == ("done", False)


def test_a_reference_can_be_taken_back_and_the_commissioning_repeated() -> None:
    method, frozen = Commissioning(ensemble_bundle(), SETTINGS), FrozenSource(ensemble_bundle())
    x = stream("health", strange=STRANGE)
    with pytest.raises(DataError, match="no reference of this machine is in use"):
        method.withdraw()
    run(method, x)
    assert status(method).reference
    method.withdraw()
    assert status(method).state == "withdrawn"
    assert torch.equal(run(method, x), run(frozen, x))
    method.repeat(healthy=False)
    run(method, x)
    assert status(method).state == "question"
    method.repeat(healthy=True)
    run(method, x)
    assert (status(method).state, status(method).reference) == ("done", True)


def test_a_reference_can_be_taken_from_the_history() -> None:
    # Blocks of a hundredth of a second: one per batch.
    method = Commissioning(ensemble_bundle(), {**ASKING, "history_seconds": 0.01 * BLOCKS})
    parts = {0: stream("health", strange=STRANGE), 10: far(40), 20: stream("health"), 30: moving(40)}
    for begin, x in parts.items():
        for number, part in enumerate(x[:40].split(8)):  # type: ignore[no-untyped-call]
            method.interval = (begin + number, begin + number + 0.5)
            method.step(part)
    method.interval = None
    method.take_from_history(0, 5)
    assert (status(method).state, status(method).reference) == ("done", True)
    assert mostly(run(method, parts[0])) == "health"
    method.take_from_history(20, 25)
    assert (status(method).state, status(method).reference) == ("done", False)
    before = method.state_dict()
    for interval, why in {
        (10, 15): "no reference can be taken from 10.0 to 15.0 s: far from all training data",
        (30, 35): "not steady",
        (50, 60): "no block of the history lies within 50.0 to 60.0 s; it reaches from 0.0 to 34.5 s",
    }.items():
        with pytest.raises(DataError, match=why):
            method.take_from_history(*interval)
    after = method.state_dict()
    assert same_states(before, after)


def test_a_long_start_takes_bounded_memory() -> None:
    x = stream("health")[:64]
    method = Commissioning(ensemble_bundle(), {"seconds": 3600.0})
    sizes = []
    for number in range(40):
        method.interval = (number, number + 1)
        method.step(x)
        sizes.append(len(method.state_dict()["memory.span.scores"]))
    assert max(sizes) <= MAX_ROWS
    assert status(method).observed == pytest.approx(40 * 64 / (3600 * RATE / ENSEMBLE_SPEC.step))


@pytest.mark.parametrize("state", ["health", "wear"])
def test_a_state_of_any_phase_resumes(state: str) -> None:
    x = stream(state)
    parts = [still(8), x[:8], x[8:16], x[16:24]]
    for cut in range(len(parts)):
        whole, part = (Commissioning(ensemble_bundle(), ASKING) for _ in range(2))
        for number, batch in enumerate(parts[:cut]):
            for method in (whole, part):
                method.interval = (number, number + 1)
                method.step(batch)
        resumed = Commissioning(ensemble_bundle(), ASKING)
        resumed.load_state_dict(part.state_dict())
        assert status(resumed) == status(whole)
        for number, batch in enumerate(parts[cut:], start=cut):
            for method in (whole, resumed):
                method.interval = (number, number + 1)
                method.step(batch)
        assert status(resumed) == status(whole)
        one, other = whole.state_dict(), resumed.state_dict()
        assert one.keys() == other.keys()
        assert same_states(one, other)


def test_the_span_has_a_least_number_of_windows() -> None:
    method = Commissioning(ensemble_bundle(), {"seconds": 1e-6})
    method.step(stream("health")[: MIN_WINDOWS - 1])
    assert status(method).state == "waiting"
    method.step(stream("health")[:1])
    assert status(method).state == "done"


def test_models_and_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BundleError, match="this bundle is a network; train an ensemble with objective 'ensemble'"):
        Commissioning(bundle())
    with pytest.raises(ConfigError, match="seconds 0; expected a positive number"):
        Commissioning(ensemble_bundle(), {"seconds": 0.0})
    with pytest.raises(ConfigError, match="history_seconds -1; expected 0 or more"):
        Commissioning(ensemble_bundle(), {"history_seconds": -1.0})


def at(torque: float, windows: int) -> torch.Tensor:
    return torch.full((windows, 1), torque, dtype=torch.float64)


@pytest.mark.parametrize("strange", [0.0, STRANGE])
@pytest.mark.parametrize("make", [Commissioning, FrozenSource])
def test_unknown_conditions_change_no_bit(make: type[OnlineMethod], strange: float) -> None:
    """With members in orders or without, and whether nothing or NaN is handed over."""
    parts = [stream("health", strange=strange), stream("wear", strange=strange)]
    settings = SETTINGS if make is Commissioning else {}
    plain, inert, unknown = (make(source, settings) for source in (ensemble_bundle(), speed_bundle(), speed_bundle()))
    for x in (part[begin : begin + 8] for part in parts for begin in range(0, len(part), 8)):
        expected = plain.step(x).probabilities
        assert torch.equal(inert.step(x).probabilities, expected)
        assert torch.equal(unknown.step(x, conditions=at(float("nan"), len(x))).probabilities, expected)


@pytest.mark.parametrize("strange", [0.0, STRANGE])
def test_a_known_speed_counts_with_a_reference_and_without(strange: float) -> None:
    told, untold = Commissioning(speed_bundle(), ASKING), Commissioning(speed_bundle(), ASKING)
    x = stream("health", strange=strange)
    for method, conditions in ((told, at(4.0, len(x))), (untold, None)):
        method.step(x, conditions=conditions)
        if strange:
            assert status(method).state == "question"
            method.confirm_healthy()
        assert status(method).reference == (strange > 0)
        assert mostly(method.step(x, conditions=conditions).probabilities) == "health"
    x = stream("wear", strange=strange)
    known = told.step(x, conditions=at(4.0, len(x))).probabilities
    assert not torch.equal(known, untold.step(x).probabilities)


def test_windows_use_the_reference_of_the_nearest_condition() -> None:
    """A second reference, of another condition, is taken from the history; it leaves the first one alone."""
    method = Commissioning(ensemble_bundle(), {**SETTINGS, "history_seconds": 4.8})
    strange, usual = stream("health", strange=STRANGE), stream("health")
    for number, (x, torque) in enumerate(((strange, 2.0), (usual, 9.0))):
        for begin in range(0, 80, 8):
            time = 10.0 * number + 0.1 * begin
            method.interval = (time, time + 0.7)
            method.step(x[begin : begin + 8], conditions=at(torque, 8))
    method.take_from_history(10.0, 20.0)
    assert method.state_dict()["memory.references.conditions"].flatten().tolist() == [2.0, 9.0]
    assert "taken at 2 conditions" in status(method).text
    frozen = FrozenSource(ensemble_bundle()).predict(strange)
    method.interval = None
    near_first = method.step(strange, learn=False, conditions=at(3.0, len(strange))).probabilities
    near_second = method.step(strange, learn=False, conditions=at(8.0, len(strange))).probabilities
    assert mostly(near_first) == "health"
    # At the second condition, the model needed no correction.
    assert torch.equal(near_second, frozen)


def test_a_reference_without_a_speed_leaves_the_members_in_orders_out() -> None:
    method = Commissioning(speed_bundle(), SETTINGS)
    x = stream("health", strange=STRANGE)
    method.step(x[:WANTED])
    assert status(method).reference
    told = method.step(x, learn=False, conditions=at(8.0, len(x))).probabilities
    assert torch.equal(told, method.step(x, learn=False).probabilities)


def test_states_of_versions_without_conditions_are_read() -> None:
    method = Commissioning(ensemble_bundle(), SETTINGS)
    run(method, stream("health", strange=STRANGE))
    state = method.state_dict()
    older = {name: tensor for name, tensor in state.items() if "conditions" not in name and "references" not in name}
    older["memory.shift"] = state["memory.references.shifts"][0]
    older["memory.start_distance"] = state["memory.references.distances"][0]
    resumed = Commissioning(ensemble_bundle(), SETTINGS)
    resumed.load_state_dict(older)
    x = stream("wear", strange=STRANGE)
    assert torch.equal(resumed.step(x).probabilities, method.step(x).probabilities)
    assert resumed.state_dict().keys() == state.keys()


def test_conditions_of_another_shape_are_refused() -> None:
    with pytest.raises(DataError, match=r"conditions of shape \(4, 2\); expected \(4, 1\)"):
        Commissioning(ensemble_bundle(), SETTINGS).step(stream("health")[:4], conditions=torch.zeros(4, 2))
