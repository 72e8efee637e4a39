from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from math import exp

import pytest
import torch
from torch import Tensor

from cgsa.errors import ConfigError
from cgsa.nn.augment import strong_view
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.mlp import count_parameters
from cgsa.nn.optim import make_adam
from cgsa.nn.volume import count_volume
from cgsa.online.checks import CHECKS, example_batches
from cgsa.online.roid import Roid, correct_by_prior, soft_likelihood_ratio
from tests.online.models import varied_bundle

LR = 1e-3


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("consistency", [True, False])
def test_keeps_the_contract(check: object, *, consistency: bool) -> None:
    source = varied_bundle()
    assert callable(check)
    check(lambda: Roid(source, {"lr": LR, "consistency": consistency}), example_batches(source))


def test_every_weight_learns_from_the_more_diverse_windows() -> None:
    source = varied_bundle()
    method = Roid(source)
    for x in example_batches(source):
        output = method.step(x)
        assert output.accepted is not None
        assert 0 < output.accepted.sum() < len(x)
        assert torch.equal(output.evidence["weight"] > 0, output.accepted)
    for learnt, before in zip(method._model.parameters(), source.network.parameters(), strict=True):
        assert not torch.equal(learnt, before)


@pytest.mark.parametrize(("consistency", "passes"), [(True, 2), (False, 1)])
def test_forward_and_backward_passes(passes: int, *, consistency: bool) -> None:
    source = varied_bundle()
    method = Roid(source, {"consistency": consistency})
    size = count_parameters(source.network)
    for x in example_batches(source, count=3):
        with count_volume() as volume:
            method.step(x)
        assert (volume.forward, volume.backward) == (passes * size, passes * size)


@dataclass
class LiteralRoid:
    """ROID as in its paper, window by window."""

    source: ModelBundle
    alpha: float = 0.99
    beta: float = 0.9
    tau: float = 1 / 3

    def __post_init__(self) -> None:
        self.model = deepcopy(self.source.network).requires_grad_()
        self.adam = make_adam(self.model.parameters(), LR)
        self.mean = torch.full((3,), 1 / 3)
        self.generator = torch.Generator().manual_seed(0)

    def step(self, x: Tensor) -> tuple[Tensor, list[int]]:
        N, K = len(x), 3
        scores = self.model(x)
        p = scores.softmax(dim=1)
        y = p.detach()

        diversity = [1 - float(y_i @ self.mean / (y_i.norm() * self.mean.norm())) for y_i in y]
        diversity = [(d - min(diversity)) / (max(diversity) - min(diversity)) for d in diversity]
        certainty = [float((y_i * y_i.log()).sum()) for y_i in y]
        certainty = [(c - min(certainty)) / (max(certainty) - min(certainty)) for c in certainty]
        chosen = [i for i in range(N) if diversity[i] >= sum(diversity) / N]
        self.mean = self.beta * self.mean + (1 - self.beta) * y.mean(dim=0)

        deviation = self.model.frontend.deviation
        assert isinstance(deviation, Tensor)
        p_view = self.model(strong_view(x[chosen], deviation, self.generator)).softmax(dim=1)
        loss = torch.zeros(())
        for place, i in enumerate(chosen):
            w = exp(diversity[i] * certainty[i] / self.tau)
            for c in range(K):
                p_c = p[i, c].clamp(max=0.99)
                ratio = -p_c * torch.log(p_c / (1 - p_c) + 1e-5)
                q_c = p_view[place, c]
                agreement = -0.5 * (p[i, c] * q_c.log() + q_c * p[i, c].log())
                loss = loss + w * (ratio + agreement) / N
        self.adam.zero_grad()
        torch.autograd.backward(loss)
        self.adam.step()
        with torch.no_grad():
            for weight, initial in zip(self.model.parameters(), self.source.network.parameters(), strict=True):
                weight.copy_(self.alpha * weight + (1 - self.alpha) * initial)

        prior = y.mean(dim=0)
        gamma = max(1 / N, 1 / K) / prior.max()
        posterior = y * ((prior + gamma) / (1 + gamma * K))
        return torch.stack([row / row.sum() for row in posterior]), chosen


def test_equals_the_description() -> None:
    source = varied_bundle()
    method, literal = Roid(source, {"lr": LR}), LiteralRoid(source)
    for x in example_batches(source):
        probabilities, chosen = literal.step(x)
        output = method.step(x)
        assert output.accepted is not None
        assert output.accepted.nonzero().flatten().tolist() == chosen
        torch.testing.assert_close(output.probabilities, probabilities, rtol=0, atol=1e-5)
        torch.testing.assert_close(method.memory["class_mean"], literal.mean, rtol=0, atol=1e-6)
    for ours, theirs in zip(method._model.parameters(), literal.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-2 * LR)


def test_equal_windows_have_weight_one() -> None:
    """Stretching weights without spread divides zero by zero."""
    source = varied_bundle()
    x = example_batches(source)[0][:1]
    for batch in (x, x.expand(7, -1, -1)):
        output = Roid(source).step(batch)
        assert output.accepted is not None
        assert output.accepted.all()
        assert torch.equal(output.evidence["weight"], torch.ones(len(batch)))


def test_full_pull_returns_to_the_source() -> None:
    source = varied_bundle()
    method = Roid(source, {"lr": LR, "source_momentum": 0.0})
    method.step(example_batches(source)[0])
    for weight, initial in zip(method._model.parameters(), source.network.parameters(), strict=True):
        assert torch.equal(weight, initial)


def test_the_pull_bounds_the_distance_from_the_source() -> None:
    """Adam moves a weight by roughly lr; pulled halfway back each time, it stays roughly that close."""
    source = varied_bundle()
    near, far = (Roid(source, {"lr": LR, "source_momentum": kept}) for kept in (0.5, 1.0))
    for x in example_batches(source, count=30):
        near.step(x)
        far.step(x)

    def way(method: Roid) -> float:
        pairs = zip(method._model.parameters(), source.network.parameters(), strict=True)
        return max(float((weight - initial).detach().abs().max()) for weight, initial in pairs)

    assert way(near) < 2 * LR < 5 * LR < way(far)


def test_the_likelihood_ratio_keeps_its_gradient_for_certain_windows() -> None:
    scores = torch.tensor([[4.0, 0.0, 0.0]], requires_grad=True)
    certain = scores.softmax(dim=1).amax()
    assert 0.9 < certain < 0.99
    (ratio_slope,) = torch.autograd.grad(soft_likelihood_ratio(scores).sum(), scores)
    (entropy_slope,) = torch.autograd.grad(-(scores.softmax(1) * scores.log_softmax(1)).sum(), scores)
    assert ratio_slope.norm() > 2 * entropy_slope.norm()
    certain = torch.tensor([[90.0, 0.0, 0.0]], requires_grad=True)
    loss = soft_likelihood_ratio(certain)
    (slope,) = torch.autograd.grad(loss.sum(), certain)
    assert loss.isfinite().all()
    assert slope.isfinite().all()


def test_prior_correction_follows_the_batch() -> None:
    """An undecided window joins the class that fills its batch; among balanced classes nothing changes."""
    certain, undecided = torch.tensor([[0.98, 0.01, 0.01]]), torch.tensor([[0.4, 0.45, 0.15]])
    corrected = correct_by_prior(torch.cat([certain.expand(50, -1), undecided]))
    assert corrected[-1].argmax() == 0
    balanced = torch.eye(3).repeat(5, 1) * 0.7 + 0.1
    torch.testing.assert_close(correct_by_prior(balanced), balanced)


@pytest.mark.parametrize(
    "settings", [{"lr": -1.0}, {"temperature": 0.0}, {"source_momentum": 1.5}, {"class_momentum": -0.1}]
)
def test_invalid_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="expected lr > 0, temperature > 0 and momenta from 0 to 1"):
        Roid(varied_bundle(), settings)
