from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from math import log

import pytest
import torch
from torch import Tensor

from cgsa.errors import ConfigError
from cgsa.nn.bundle import Manifest, ModelBundle
from cgsa.nn.losses import entropy
from cgsa.nn.mlp import DiagnosisNet, build_seeded, count_parameters
from cgsa.nn.optim import make_adam
from cgsa.nn.volume import count_volume
from cgsa.online.checks import CHECKS, example_batches
from cgsa.online.sar import Sar
from tests.machines import manifest
from tests.online.models import varied_bundle

LR = 1e-3
SETTINGS: dict[str, object] = {"lr": LR}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("recovery", [0.2, 1.0])
def test_keeps_the_contract(recovery: float, check: object) -> None:
    source = varied_bundle()
    assert callable(check)
    check(lambda: Sar(source, {**SETTINGS, "recovery": recovery}), example_batches(source))


def test_adapts_and_recovers_under_the_contract_checks() -> None:
    source = varied_bundle()
    calm, anxious = (Sar(source, {**SETTINGS, "recovery": recovery}) for recovery in (0.2, 1.0))
    recovered = 0
    for x in example_batches(source):
        for method in (calm, anxious):
            output = method.step(x)
            assert output.accepted is not None
            assert 0 < output.accepted.sum() < len(x)
        recovered += bool(anxious.memory["smoothed_entropy"].isnan())
    assert 0 < recovered < 6
    for learnt, before in zip(calm._model.parameters(), source.network.parameters(), strict=True):
        assert not torch.equal(learnt, before)


def test_two_forward_and_two_backward_passes() -> None:
    source = varied_bundle()
    method = Sar(source)
    size = count_parameters(source.network)
    for x in example_batches(source, count=3):
        with count_volume() as volume:
            method.step(x)
        assert (volume.forward, volume.backward) == (2 * size, 2 * size)


@dataclass
class LiteralSar:
    """SAR as in its paper, with weights that actually move to theta + epsilon and back."""

    source: ModelBundle
    recovery: float
    rho: float = 0.05
    e_m: float | None = None

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.model = deepcopy(self.source.network).requires_grad_()
        self.adam = make_adam(self.model.parameters(), LR)

    def step(self, x: Tensor) -> tuple[Tensor, list[int]]:
        K = len(self.source.manifest.classes)
        weights = list(self.model.parameters())
        scores = self.model(x)
        first = [i for i in range(len(x)) if entropy(scores[i : i + 1]).item() < 0.4 * log(K)]
        if not first:
            return scores.softmax(dim=1).detach(), []
        self.adam.zero_grad()
        torch.autograd.backward(entropy(scores[first]).mean())
        gradients = [weight.grad.clone() for weight in weights if weight.grad is not None]
        length = sum(float((gradient.double() ** 2).sum()) for gradient in gradients) ** 0.5
        kept = [weight.detach().clone() for weight in weights]
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.add_(gradient, alpha=self.rho / length)
        perturbed = entropy(self.model(x))
        second = [i for i in first if perturbed[i].item() < 0.4 * log(K)]
        self.adam.zero_grad()
        if second:
            torch.autograd.backward(perturbed[second].mean())
        with torch.no_grad():
            for weight, old in zip(weights, kept, strict=True):
                weight.copy_(old)
        if second:
            self.adam.step()
            new = perturbed[second].mean().item()
            self.e_m = new if self.e_m is None else 0.9 * self.e_m + 0.1 * new
            if self.e_m < self.recovery * log(K) / log(1000):
                self.restart()
                self.e_m = None
        return scores.softmax(dim=1).detach(), second


@pytest.mark.parametrize("recovery", [0.0, 0.2, 1.0])
def test_equals_the_description(recovery: float) -> None:
    source = varied_bundle()
    method, literal = Sar(source, {**SETTINGS, "recovery": recovery}), LiteralSar(source, recovery)
    for x in example_batches(source):
        probabilities, accepted = literal.step(x)
        output = method.step(x)
        assert output.accepted is not None
        assert output.accepted.nonzero().flatten().tolist() == accepted
        torch.testing.assert_close(output.probabilities, probabilities, rtol=0, atol=1e-5)
        smoothed = torch.tensor(torch.nan if literal.e_m is None else literal.e_m)
        torch.testing.assert_close(method.memory["smoothed_entropy"], smoothed, rtol=1e-4, atol=0, equal_nan=True)
    for ours, theirs in zip(method._model.parameters(), literal.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-2 * LR)


def test_thresholds_scale_with_the_classes() -> None:
    """The paper's 0.2 is for 1000 classes; four have 0.04, and 0.4 ln 4 = 0.555 for the margin."""
    described = Manifest(**{**vars(manifest()), "classes": ("health", "wear", "crack", "pitting")})
    network = build_seeded(0, lambda: DiagnosisNet(described.network, 2, described.window.length, 4))
    method = Sar(ModelBundle(described, network.requires_grad_(requires_grad=False), None))
    assert method._recovery == pytest.approx(0.04, abs=2e-4)
    assert method._margin == pytest.approx(0.555, abs=5e-4)


def test_recovery_resets_the_model() -> None:
    source = varied_bundle()
    first, second = example_batches(source, count=2)
    method = Sar(source, {**SETTINGS, "recovery": 100.0})
    method.step(first)
    state, fresh = method.state_dict(), Sar(source).state_dict()
    assert state.keys() == fresh.keys()  # no moments of Adam are left either
    assert all(torch.equal(state[name], fresh[name]) for name in state if name.startswith("network"))
    assert state["memory.smoothed_entropy"].isnan()
    assert torch.equal(method.step(second).probabilities, Sar(source).step(second).probabilities)


def test_without_a_reliable_window_nothing_changes() -> None:
    source = varied_bundle()
    method = Sar(source, {**SETTINGS, "margin": 1e-9})
    x = example_batches(source)[0]
    before = method.state_dict()
    with count_volume() as volume:
        output = method.step(x)
    assert output.accepted is not None
    assert not output.accepted.any()
    assert volume.backward == 0
    after = method.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before if name.startswith("network"))


def test_windows_that_become_unreliable_are_not_learnt() -> None:
    """The one window lies just within the margin; the step towards more entropy carries it across."""
    source = varied_bundle()
    x = example_batches(source)[0]
    uncertainty = entropy(source.network(x))
    least = int(uncertainty.argmin())
    margin = 1.001 * float(uncertainty[least]) / log(3)
    method = Sar(source, {**SETTINGS, "margin": margin})
    before = method.state_dict()
    with count_volume() as volume:
        output = method.step(x[least, None])
    assert volume.forward == 2 * volume.backward > 0
    assert output.accepted is not None
    assert not output.accepted.any()
    assert output.evidence["perturbed_entropy"] > uncertainty[least]
    after = method.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before if name.startswith("network"))
    assert after["memory.smoothed_entropy"].isnan()


@pytest.mark.parametrize(
    "settings", [{"lr": 0.0}, {"margin": 0.0}, {"rho": -1.0}, {"momentum": 1.0}, {"recovery": -0.1}]
)
def test_invalid_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="expected lr > 0, 0 < margin <= 1, rho >= 0"):
        Sar(varied_bundle(), settings)
