from __future__ import annotations

import numpy as np
import pytest
import torch

from cgsa.data.windows import overlapping_windows
from cgsa.errors import BundleError, ConfigError
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.ensemble import Ensemble
from cgsa.online.base import OnlineMethod
from cgsa.online.checks import check_method, example_batches
from cgsa.online.commissioning import MIN_WINDOWS, SHARES, Commissioning
from cgsa.online.evidence import AGREES_WITH_SOURCE
from cgsa.online.reference import BEFORE_REFERENCE, IN_HEALTHY_SPAN, REFERENCE_READY
from cgsa.online.source import FrozenSource
from tests.machines import CLASSES, ENSEMBLE_SPEC, RATE, ToyLibrary, bundle, ensemble_bundle, ensemble_manifest

WANTED = 10
SETTINGS: dict[str, object] = {"seconds": WANTED * ENSEMBLE_SPEC.step / RATE}
STRANGE = 1.0
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


def verdicts(probabilities: torch.Tensor) -> list[str]:
    return [CLASSES[label] for label in sorted(set(probabilities.argmax(dim=1).tolist()))]


@pytest.mark.parametrize(("method", "settings"), [(Commissioning, SETTINGS), (FrozenSource, {})])
def test_the_contract_holds(method: type[OnlineMethod], settings: dict[str, object]) -> None:
    check_method(method, ensemble_bundle(), settings)


def test_methods_get_a_reference_under_the_contract_checks() -> None:
    method = Commissioning(ensemble_bundle(), SETTINGS)
    for x in example_batches(ensemble_bundle()):
        method.step(x)
    assert method.state_dict()["memory.shift"].any()


def test_a_machine_that_appears_healthy_gets_the_verdicts_of_the_frozen_model() -> None:
    method, frozen = Commissioning(ensemble_bundle(), SETTINGS), FrozenSource(ensemble_bundle())
    parts = [stream("health"), stream("wear"), stream("crack"), stream("health", strange=STRANGE)]
    found = run(method, *parts)
    assert method.state_dict()["memory.commissioned"]
    assert not method.state_dict()["memory.shift"].any()
    assert torch.equal(found, run(frozen, *parts))
    assert verdicts(found[:WANTED]) == ["health"]


def test_a_healthy_machine_that_appears_faulty_is_called_healthy_after_its_start() -> None:
    method, frozen = Commissioning(ensemble_bundle(), SETTINGS), FrozenSource(ensemble_bundle())
    start, later = stream("health", strange=STRANGE).split([WANTED, 76])  # type: ignore[no-untyped-call]
    assert verdicts(run(frozen, start, later)) == ["wear"]
    # Until the reference stands, the diagnosis is that of the frozen model.
    assert torch.equal(run(method, start, size=WANTED), run(frozen, start, size=WANTED))
    assert method.state_dict()["memory.shift"].any()
    found = run(method, later)
    assert verdicts(found) == ["health"]
    # A real fault of this machine is still one.
    assert "health" not in verdicts(run(method, stream("crack", strange=STRANGE)))


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

    if mean_votes(np.zeros((members, classes))).argmax() == 0:
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


@pytest.mark.parametrize("strange", [0.0, 0.6, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("state", ["health", "crack"])
def test_the_shift_against_loops(state: str, strange: float) -> None:
    source, start = ensemble_bundle(), stream(state, strange=strange)[:WANTED]
    method = Commissioning(source, SETTINGS)
    method.step(start)
    expected = literal_shift(source.require_ensemble(), start)
    torch.testing.assert_close(method.state_dict()["memory.shift"], expected, rtol=1e-3, atol=1e-3)
    assert bool(expected.any()) == (state != "health" or strange > 0.6)


def test_the_shift_is_that_of_the_first_windows_however_they_come() -> None:
    x = stream("health", strange=STRANGE)[:24]
    wanted = literal_shift(ensemble_bundle().require_ensemble(), x[:WANTED])
    for sizes in ([24], [4, 4, 4, 12], [1] * 24):
        method = Commissioning(ensemble_bundle(), SETTINGS)
        accepted = torch.cat([method.step(part).accepted for part in x.split(sizes)])  # type: ignore[misc, no-untyped-call]
        assert accepted.tolist() == [True] * WANTED + [False] * 14
        torch.testing.assert_close(method.state_dict()["memory.shift"], wanted, rtol=1e-3, atol=1e-3)


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
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_step_without_learning_changes_nothing() -> None:
    method, x = Commissioning(ensemble_bundle(), SETTINGS), stream("health", strange=STRANGE)
    for commissioned in (False, True):
        before = method.state_dict()
        output = method.step(x, learn=False)
        assert output.accepted is not None
        assert not output.accepted.any()
        assert output.evidence["ready"].all() == commissioned
        after = method.state_dict()
        assert all(torch.equal(before[name], after[name]) for name in before)
        method.step(x)


def test_a_reset_forgets_the_reference() -> None:
    method, x = Commissioning(ensemble_bundle(), SETTINGS), stream("health", strange=STRANGE)
    fresh = method.state_dict()
    first = run(method, x)
    assert verdicts(first[-20:]) == ["health"]
    method.reset()
    again = method.state_dict()
    assert all(torch.equal(fresh[name], again[name]) for name in fresh)
    assert torch.equal(run(method, x), first)


def test_evidence_says_what_the_frozen_model_thinks_and_how_far_a_window_is() -> None:
    source, x = ensemble_bundle(), stream("health", strange=STRANGE)
    method = Commissioning(source, SETTINGS)
    before, after = method.step(x[:WANTED]), method.step(x[WANTED:])
    assert before.evidence[AGREES_WITH_SOURCE].all()
    assert not after.evidence[AGREES_WITH_SOURCE].any()
    assert source.known is not None
    features = source.require_ensemble().extract(x[WANTED:])
    assert torch.equal(after.evidence["distance"], source.known(features))
    plain = ModelBundle(ensemble_manifest(), source.model, None)
    assert "distance" not in Commissioning(plain, SETTINGS).step(x).evidence


def test_every_window_has_a_reason() -> None:
    method, reasons = Commissioning(ensemble_bundle(), SETTINGS), []
    for x in stream("health")[:24].split([12, 12]):  # type: ignore[no-untyped-call]
        code, texts = method.reasons(method.step(x))
        reasons += [texts[number] for number in code.tolist()]
    assert reasons == [IN_HEALTHY_SPAN] * WANTED + [BEFORE_REFERENCE] * 2 + [REFERENCE_READY] * 12


def test_the_span_has_a_least_number_of_windows() -> None:
    method = Commissioning(ensemble_bundle(), {"seconds": 1e-6})
    method.step(stream("health")[: MIN_WINDOWS - 1])
    assert not method.state_dict()["memory.commissioned"]
    method.step(stream("health")[:1])
    assert method.state_dict()["memory.commissioned"]


def test_models_and_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BundleError, match="this bundle is a network; train an ensemble with objective 'ensemble'"):
        Commissioning(bundle())
    with pytest.raises(ConfigError, match="seconds 0; expected a positive number"):
        Commissioning(ensemble_bundle(), {"seconds": 0.0})
