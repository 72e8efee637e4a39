"""CoTTA against a transcription of its steps."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace

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
from cgsa.online.cotta import Cotta
from tests.machines import bundle
from tests.online.models import varied_bundle

ALWAYS, NEVER = 1.0, 0.0  # thresholds below which a mean confidence always or never lies


def between(source: ModelBundle) -> float:
    """A threshold that some example batches reach and others do not."""
    means = sorted(confidence_of(source, x) for x in example_batches(source))
    return (means[2] + means[3]) / 2


def confidence_of(source: ModelBundle, x: Tensor) -> float:
    return float(torch.softmax(source.network(x), dim=1).amax(dim=1).mean())


@dataclass
class Literal:
    """The method step by step, with masks and averages written out."""

    source: ModelBundle
    p_th: float
    lr: float
    alpha: float
    p: float
    N: int

    def __post_init__(self) -> None:
        self.student = deepcopy(self.source.network).requires_grad_(requires_grad=True)
        self.teacher = deepcopy(self.source.network)
        self.adam = make_adam(self.student.parameters(), self.lr)
        self.generator = torch.Generator().manual_seed(0)

    def step(self, x: Tensor) -> Tensor:
        deviation = self.student.frontend.deviation
        y = torch.softmax(self.teacher(x), dim=1)
        if confidence_of(self.source, x) < self.p_th:
            views = [strong_view(x, deviation, self.generator) for _ in range(self.N)]
            y = torch.stack([torch.softmax(self.teacher(view), dim=1) for view in views]).mean(dim=0)
        log_p = torch.log_softmax(self.student(x), dim=1)
        loss = torch.stack([-(y[i] * log_p[i]).sum() for i in range(len(x))]).mean()
        self.adam.zero_grad()
        torch.autograd.backward(loss)
        self.adam.step()
        with torch.no_grad():
            for slow, fast in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
                slow.copy_(self.alpha * slow + (1 - self.alpha) * fast)
            for W, W_0 in zip(self.student.parameters(), self.source.network.parameters(), strict=True):
                M = (torch.rand(W.shape, generator=self.generator) < self.p).float()
                W.copy_(M * W_0 + (1 - M) * W)
        return y


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_keeps_the_contract(check: object) -> None:
    source = varied_bundle(scale=1.0)
    settings = {"lr": 1e-3, "momentum": 0.9, "views": 4, "p_th": between(source)}
    assert callable(check)
    check(lambda: Cotta(source, settings), example_batches(source))


def test_adapts_under_the_contract_checks_with_and_without_views() -> None:
    source = varied_bundle(scale=1.0)
    method = Cotta(source, {"lr": 1e-3, "momentum": 0.9, "views": 4, "p_th": between(source)})
    uncertain = []
    for x in example_batches(source):
        output = method.step(x)
        assert output.accepted is not None
        assert output.accepted.all()
        uncertain.append(float(output.evidence["anchor_confidence"].mean()) < method.config.p_th)
    assert sorted(uncertain) == [False] * 3 + [True] * 3
    state = method.state_dict()
    for name in ("student", "teacher"):
        assert not torch.equal(state[f"network.{name}.F.0.weight"], source.network.state_dict()["F.0.weight"])


def test_views_are_used_only_if_the_source_model_is_uncertain() -> None:
    """Three passes, and 32 more on uncertain batches: the share q of those gives the paper's volume 3 + 32 q."""
    source = varied_bundle(scale=1.0)
    size = count_parameters(source.network)
    method = Cotta(source, {"p_th": between(source)})
    for x in example_batches(source):
        views = 32 if confidence_of(source, x) < method.config.p_th else 0
        with count_volume() as volume:
            method.step(x)
        assert (volume.forward, volume.backward) == ((3 + views) * size, size)


def test_the_source_model_decides_about_views_not_the_teacher() -> None:
    source = varied_bundle(scale=1.0)
    x = example_batches(source)[0]
    method = Cotta(source, {"p_th": confidence_of(source, x) - 0.01})
    with torch.no_grad():
        for weight in method._teacher.parameters():
            weight.zero_()
    torch.testing.assert_close(method.predict(x), torch.full((len(x), 3), 1 / 3))
    with count_volume() as volume:
        method.step(x)
    assert volume.forward == 3 * count_parameters(source.network)


@pytest.mark.parametrize("p_th", [NEVER, ALWAYS, None], ids=["never", "always", "between"])
def test_equals_the_transcription(p_th: float | None) -> None:
    source = varied_bundle(scale=1.0)
    threshold = between(source) if p_th is None else p_th
    literal = Literal(source, threshold, lr=1e-3, alpha=0.9, p=0.2, N=5)
    ours = Cotta(source, {"p_th": threshold, "lr": 1e-3, "momentum": 0.9, "restore": 0.2, "views": 5})
    for x in example_batches(source):
        torch.testing.assert_close(ours.step(x).probabilities, literal.step(x), rtol=1e-4, atol=1e-5)
    for ours_model, literal_model in ((ours._student, literal.student), (ours._teacher, literal.teacher)):
        for ours_weight, literal_weight in zip(ours_model.parameters(), literal_model.parameters(), strict=True):
            torch.testing.assert_close(ours_weight, literal_weight, rtol=1e-4, atol=1e-5)


def test_every_weight_can_be_restored_and_the_teacher_keeps_what_was_learnt() -> None:
    source = varied_bundle(scale=1.0)
    method = Cotta(source, {"lr": 1e-2, "momentum": 0.5, "restore": 1.0, "p_th": NEVER})
    method.step(example_batches(source)[0])
    for name, weight in method._student.named_parameters():
        assert torch.equal(weight, source.network.get_parameter(name)), name
    for name, weight in method._teacher.named_parameters():
        assert not torch.equal(weight, source.network.get_parameter(name)), name


def test_about_one_percent_of_the_weights_is_restored() -> None:
    source = varied_bundle(scale=1.0)
    method = Cotta(source, {"lr": 1e-2, "restore": 0.25, "p_th": NEVER})
    with torch.no_grad():
        for weight in method._student.parameters():
            weight.add_(1.0)
        method._restore()
    pairs = zip(method._student.parameters(), source.network.parameters(), strict=True)
    restored = torch.cat([(weight == original).flatten() for weight, original in pairs])
    assert 0.2 < float(restored.float().mean()) < 0.3


def test_large_signals_are_not_clipped_into_views() -> None:
    source = varied_bundle(scale=1.0)
    source.network.frontend.deviation.fill_(100.0)
    x = torch.full_like(example_batches(source)[0], 100.0)
    seen: list[Tensor] = []
    method = Cotta(source, {"p_th": ALWAYS, "views": 3})
    method._teacher.frontend.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    method.predict(x)
    assert len(seen) == 4
    for view in seen:
        assert float(view.min()) > 50


def test_threshold_by_the_authors_rule() -> None:
    source = varied_bundle(scale=1.0)
    assert Cotta(source)._p_th == 0.92
    with_confidence = replace(source, manifest=replace(source.manifest, usual_confidence=0.8))
    assert Cotta(with_confidence)._p_th == pytest.approx(0.75)
    assert Cotta(with_confidence, {"p_th": 0.3})._p_th == 0.3
    uncertain = replace(source, manifest=replace(source.manifest, usual_confidence=0.02))
    assert Cotta(uncertain)._p_th == 0.0


@pytest.mark.parametrize("settings", [{"lr": 0.0}, {"views": 0}, {"momentum": 1.5}, {"restore": -0.1}, {"p_th": 1.1}])
def test_invalid_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        Cotta(bundle(), settings)
