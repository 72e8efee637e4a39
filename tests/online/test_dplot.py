"""DPLOT against a literal transcription of its choice of blocks and of its stream."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from cgsa.errors import ConfigError
from cgsa.nn.augment import strong_view
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.mlp import DiagnosisNet, count_parameters
from cgsa.nn.optim import make_adam
from cgsa.nn.volume import count_volume
from cgsa.online.checks import CHECKS, example_batches
from cgsa.online.dplot import Dplot
from tests.machines import stream_windows
from tests.online.models import source_windows, trained_bundle

SETTINGS: dict[str, object] = {"selection_windows": 96, "batch_size": 32}


def make(settings: Mapping[str, object] | None = None, *, seed: int = 3) -> Dplot:
    return Dplot(trained_bundle(), {**SETTINGS, **(settings or {})}, seed=seed, source=source_windows())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_keeps_the_contract(check: object) -> None:
    assert callable(check)
    check(make, example_batches(trained_bundle()))


def test_adapts_under_the_contract_checks() -> None:
    method, before = make(), trained_bundle().network.state_dict()
    for x in example_batches(trained_bundle()):
        assert cast(Tensor, method.step(x).accepted).all()
    after = method.state_dict()
    for name in ("F.0.weight", "F.2.bias", "G.0.weight"):
        assert not torch.equal(after[f"network.student.{name}"], before[name])
        assert not torch.equal(after[f"network.teacher.{name}"], before[name])


def entropy(scores: Tensor) -> Tensor:
    return -(torch.softmax(scores, dim=1) * torch.log_softmax(scores, dim=1)).sum(dim=1)


def linear_layers(network: DiagnosisNet) -> list[nn.Linear]:
    return [module for module in network.modules() if isinstance(module, nn.Linear)]


class Literal:
    """DPLOT with the blocks chosen window by window and every pass written out."""

    def __init__(self, source: ModelBundle, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.student = deepcopy(source.network).requires_grad_()
        self.teacher = deepcopy(source.network)
        self.deviation = source.network.frontend.deviation
        self.similarity, self.chosen = self.choose(source)
        layers = linear_layers(self.student)
        weights = [p for n in self.chosen for p in layers[n].parameters()]
        self.adam_blocks, self.adam_all = make_adam(weights, 1e-3), make_adam(self.student.parameters(), 1e-4)

    def prototypes(self, network: DiagnosisNet, index: list[int]) -> list[Tensor]:
        found: list[list[Tensor]] = [[], [], []]
        for n in index:
            with torch.no_grad():
                found[int(source_windows().labels[n])].append(
                    network.features(source_windows().gather(slice(n, n + 1)))
                )
        return [torch.cat(features).mean(dim=0) for features in found]

    def choose(self, source: ModelBundle) -> tuple[list[float], list[int]]:
        index = torch.randperm(len(source_windows()), generator=self.generator)[:96].tolist()
        before = self.prototypes(source.network, index)
        similarity = []
        for n in range(3):
            network = deepcopy(source.network)
            adam = make_adam(linear_layers(network)[n].requires_grad_().parameters(), 1e-3)
            for begin in (0, 32, 64):
                x = source_windows().gather(torch.tensor(index[begin : begin + 32]))
                noise = 0.5 * self.deviation * torch.randn(x.shape, generator=self.generator)
                adam.zero_grad()
                torch.autograd.backward(entropy(network(x + noise)).mean())
                adam.step()
            after = self.prototypes(network, index)
            cosines = [float(cosine_similarity(a, b, dim=0)) for a, b in zip(before, after, strict=True)]
            similarity.append(sum(cosines) / 3)
        low, high = min(similarity), max(similarity)
        return similarity, [n for n in range(3) if (similarity[n] - low) / (high - low) > 0.75]

    def step(self, x: Tensor) -> Tensor:
        paired = strong_view(x, self.deviation, self.generator)
        with torch.no_grad():
            teacher = (self.teacher(x) + self.teacher(paired)) / 2
            student = (self.student(x) + self.student(paired)) / 2
        self.student.zero_grad()
        torch.autograd.backward(entropy(self.student(x)).mean())
        self.adam_blocks.step()
        self.student.zero_grad()
        loss = torch.zeros(())
        for seen in (x, paired):
            scores = self.student(seen)
            forward = -(torch.softmax(teacher, dim=1) * torch.log_softmax(scores, dim=1)).sum(dim=1)
            backward = -(torch.softmax(scores, dim=1) * torch.log_softmax(teacher, dim=1)).sum(dim=1)
            loss = loss + (forward + backward).mean() / 4
        torch.autograd.backward(loss)
        self.adam_all.step()
        with torch.no_grad():
            for kept, new in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
                kept.copy_(0.999 * kept + 0.001 * new)
        return torch.softmax((student + teacher) / 2, dim=1)


def test_equals_the_literal_method() -> None:
    windows = stream_windows()
    ours, literal = make(seed=5), Literal(trained_bundle(), seed=5)
    assert ours.memory["chosen"].nonzero()[:, 0].tolist() == literal.chosen
    assert len(literal.chosen) < 3
    again = make()
    again.generator.manual_seed(5)
    expected = torch.tensor(literal.similarity)
    torch.testing.assert_close(1 - again._similarities(), 1 - expected, rtol=0, atol=0.01 * float(1 - expected.max()))
    for begin in (0, 500, 800, 1300):
        x = windows.gather(slice(begin, begin + 40))
        torch.testing.assert_close(ours.step(x).probabilities, literal.step(x), rtol=0, atol=1e-4)
    for a, b in zip(ours._student.parameters(), literal.student.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=2e-5)
    for a, b in zip(ours._teacher.parameters(), literal.teacher.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-6)


def test_volumes() -> None:
    size = count_parameters(trained_bundle().network)
    method = make()
    with count_volume() as volume:
        method.step(stream_windows().gather(slice(0, 200)))
    assert (volume.forward, volume.backward) == (5 * size, 2 * size)


def test_entropy_changes_only_the_selected_blocks() -> None:
    method = make({"lr": 1e-30})
    method.memory["chosen"] = torch.tensor([False, True, False])
    method.step(stream_windows().gather(slice(0, 40)))
    after, before = linear_layers(method._student), linear_layers(trained_bundle().network)
    moved = [not torch.equal(a.weight, b.weight) for a, b in zip(after, before, strict=True)]
    assert moved == [False, True, False, False]


def test_the_second_loss_sees_the_blocks_after_their_step() -> None:
    """A graph built before that step would hold weights that are no more, and the fused Adam hides it from PyTorch."""
    seen: list[Tensor] = []
    method = make()
    handle = method._student.F[0].register_forward_pre_hook(lambda layer, _: seen.append(layer.bias.detach().clone()))
    method.memory["chosen"][:] = True
    method.step(stream_windows().gather(slice(0, 40)))
    handle.remove()
    first, paired, again = seen
    assert torch.equal(first, paired)
    assert not torch.equal(paired, again)


def test_a_state_includes_the_selected_blocks() -> None:
    """The state includes the selected blocks, even if they differ from those of this method."""
    one, other = make(), make()
    one.memory["chosen"] = torch.tensor([False, True, True])
    other.memory["chosen"] = torch.tensor([True, False, False])
    x, y = example_batches(trained_bundle(), count=2)
    one.step(x)
    other.step(x)
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.step(y).probabilities, other.step(y).probabilities)
    assert all(torch.equal(a, other.state_dict()[name]) for name, a in one.state_dict().items())


def test_equal_blocks_are_all_selected() -> None:
    """Without noise to learn from nothing moves, and no block is worse than another."""
    assert make({"block_lr": 1e-30}).memory["chosen"].all()


def test_warm_up_is_off_by_default() -> None:
    before = trained_bundle().network.state_dict()["F.0.weight"]
    assert torch.equal(make()._student.state_dict()["F.0.weight"], before)
    warm = make({"warm_up": 64})
    assert not torch.equal(warm._student.state_dict()["F.0.weight"], before)
    assert not torch.equal(warm._teacher.state_dict()["F.0.weight"], before)


def test_needs_training_windows() -> None:
    with pytest.raises(ConfigError, match="Dplot needs the training windows"):
        Dplot(trained_bundle())


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"lr": 0.0}, "lr 0"), ({"threshold": 1.0}, "threshold 1"), ({"selection_windows": 0}, "selection_windows 0")],
)
def test_invalid_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(settings)
