from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from cgsa.decide.decision import DecisionMaker
from cgsa.decide.filter import FilterConfig
from cgsa.errors import BundleError, ConfigError
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.deviation import SHARES, UsualDeviation
from cgsa.nn.mlp import count_parameters
from cgsa.nn.volume import count_volume
from cgsa.online.cgsa_joined import CgsaJoined
from cgsa.online.checks import CHECKS, Make, check_reset, example_batches
from tests.machines import stream_windows
from tests.online.models import varied_bundle

Check = Callable[[Make, list[Tensor]], None]
LEARNING = {"tau": 1.0, "min_belief": 0.3, "queue": 20}


def joined(settings: dict[str, object] | None = None) -> CgsaJoined:
    return CgsaJoined(varied_bundle(), {**LEARNING, **(settings or {})})


def let_it_speak(method: CgsaJoined) -> None:
    """Make the student lead in two classes."""
    method.memory["seen"][:2] = True
    method.memory["lead"][:2] = 1.0


@pytest.mark.parametrize(
    "check", [check for check in CHECKS if check is not check_reset], ids=lambda check: check.__name__
)
def test_keeps_the_contract_while_the_student_speaks(check: Check) -> None:
    def make() -> CgsaJoined:
        method = joined()
        let_it_speak(method)
        return method

    check(make, example_batches(varied_bundle()))


def literal_joining(source: ModelBundle, batches: Sequence[Tensor], change: float, healthy: float) -> list[Tensor]:
    """The frozen model joined over time, one window and class at a time."""
    spec = source.manifest.window
    hop, states = spec.step / spec.length, len(source.manifest.classes)
    length = round(1 / hop)

    def move(belief: list[float], chance: float) -> list[float]:
        return [
            sum(belief[i] * (1 - chance if i == j else chance / (states - 1)) for i in range(states))
            for j in range(states)
        ]

    def scaled(values: list[float]) -> list[float]:
        return [value / sum(values) for value in values]

    history = [[healthy] + [(1 - healthy) / (states - 1)] * (states - 1)] * length
    results = []
    for x in batches:
        evidence = [[max(p, 1e-4) for p in row] for row in source.network(x).softmax(dim=1).double().tolist()]
        for row in evidence:
            history.append(scaled([b * e**hop for b, e in zip(move(history[-1], change * hop), row, strict=True)]))
        later = [[1.0 / states] * states]
        for row in reversed(evidence):
            weighted = [m * e**hop for m, e in zip(later[0], row, strict=True)]
            later.insert(0, scaled(move(weighted, change * hop)))  # the chain is symmetric
        rows = []
        for t, row in enumerate(evidence):
            before = move(history[len(history) - len(evidence) - length + t], change)
            after = move(later[min(t + length, len(evidence))], change)
            rows.append(scaled([b * a * e for b, a, e in zip(before, after, row, strict=True)]))
        results.append(torch.tensor(rows))
    return results


@pytest.mark.parametrize("sizes", [(1, 2, 3), (5, 40, 7), (64, 64)])
def test_without_the_student_the_diagnosis_is_the_frozen_model_joined_over_time(sizes: tuple[int, ...]) -> None:
    method = joined({"student_share": 0.0})
    batches = torch.split(stream_windows().gather(slice(0, sum(sizes))), list(sizes))
    for x, expected in zip(batches, literal_joining(method.bundle, batches, 0.1, 0.99), strict=True):
        torch.testing.assert_close(method.step(x).probabilities, expected, rtol=0, atol=1e-4)


def test_decisions_join_what_the_frozen_model_says_of_each_window() -> None:
    """So that verdicts are those of the frozen model, whatever the student has learnt."""
    method = joined()
    let_it_speak(method)
    decided, frozen = (DecisionMaker(FilterConfig(), method.bundle.manifest) for _ in range(2))
    for x in example_batches(method.bundle):
        output = method.step(x)
        source = method.bundle.network(x).softmax(dim=1)
        torch.testing.assert_close(output.for_decisions, source)
        assert torch.equal(decided.step(output.for_decisions).state, frozen.step(source).state)


def test_the_student_learns_certain_windows_whose_own_label_is_the_joined_one() -> None:
    method = joined({"tau": 0.05, "min_belief": 0.8})
    accepted = 0
    for x in example_batches(method.bundle):
        output = method.step(x)
        label = method.bundle.network(x).argmax(dim=1)
        agreed = output.evidence["pseudo_label"] == label
        steady = output.evidence["deviation"] < 0.05
        assert output.accepted is not None
        assert torch.equal(output.accepted, steady & agreed & (output.evidence["confidence"] > 0.8))
        accepted += int(output.accepted.sum())
    assert accepted > 0


def test_the_student_is_silent_until_it_leads_in_every_class_of_two_or_more() -> None:
    method = joined()
    source, student = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(1)).log_softmax(dim=2)

    def heard(seen: list[bool], lead: list[float]) -> bool:
        method.memory |= {"seen": torch.tensor(seen), "lead": torch.tensor(lead)}
        mixed = method._mixed(source, student)
        expected = (0.5 * source + 0.5 * student).log_softmax(dim=1)
        return torch.allclose(mixed, expected) and not torch.allclose(mixed, source)

    assert not heard([False, False, False], [0.0, 0.0, 0.0])
    assert not heard([True, False, False], [1.0, 0.0, 0.0])
    assert heard([True, True, False], [1.0, 0.1, 0.0])
    assert not heard([True, True, False], [1.0, -0.1, 0.0])
    assert not heard([True, True, True], [1.0, 1.0, -0.1])


def test_the_lead_is_the_gain_of_the_joined_margin_by_class() -> None:
    method = joined({"lead_momentum": 0.75})
    label, certain = torch.tensor([0, 0, 1, 2]), torch.tensor([True, True, True, False])
    source = torch.tensor([[-1.0, -2.0, -9.0], [-1.0, -9.0, -2.0], [-3.0, -1.0, -2.0], [-1.0, -1.0, -1.0]])
    student = torch.tensor([[-1.0, -3.0, -9.0], [-1.0, -9.0, -3.0], [-1.0, -3.0, -2.0], [-9.0, -9.0, -1.0]])
    method._compare(source, student, label, certain)
    # Class 0: rivals at -5.5 and then -6 in the mean; class 1: from 1 ahead to 2 behind; class 2 is not certain.
    assert method.memory["lead"].tolist() == pytest.approx([0.5, -3.0, 0.0])
    assert method.memory["seen"].tolist() == [True, True, False]
    method._compare(source, source, label, certain)
    assert method.memory["lead"].tolist() == pytest.approx([0.375, -2.25, 0.0])


def test_weights_are_pulled_toward_the_source() -> None:
    free, held = joined({"source_momentum": 1.0}), joined({"source_momentum": 0.0})
    for x in example_batches(free.bundle):
        free.step(x)
        held.step(x)
    start = free.bundle.network.state_dict()["G.0.weight"]
    assert not torch.equal(free.state_dict()["network.student.G.0.weight"], start)
    assert torch.equal(held.state_dict()["network.student.G.0.weight"], start)


def test_tau_auto_is_taken_from_the_bundle() -> None:
    source = varied_bundle()
    with pytest.raises(BundleError, match="set the method's tau to a number"):
        CgsaJoined(source)
    usual = UsualDeviation(100, (0.1,), tuple(share / 10 for share in SHARES))
    known = replace(source, manifest=replace(source.manifest, usual_deviation=usual))
    assert CgsaJoined(known).gate.tau == pytest.approx(usual.at(0.5))


def test_two_forward_passes_the_discriminator_and_one_backward_pass() -> None:
    method = joined()
    for x in example_batches(method.bundle)[:2]:
        with count_volume() as volume:
            method.step(x)
    weights, branch = count_parameters(method.bundle.network), count_parameters(method._discriminator.mean)
    assert (volume.forward, volume.backward) == (2 * weights + branch, weights)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"tau": 0.0}, "tau 0; expected|tau > 0"),
        ({"change": 1.0}, "0 < change < 1"),
        ({"min_belief": 1.0}, "0 <= min_belief < 1"),
        ({"student_share": 1.5}, "shares from 0 to 1"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, object], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        joined(settings)
