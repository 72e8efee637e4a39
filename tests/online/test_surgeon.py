"""SURGEON against a literal transcription that prunes by hand."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import cast

import pytest
import torch
from torch import Tensor, nn

from cgsa.errors import ConfigError
from cgsa.nn.augment import strong_view
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.mlp import count_parameters
from cgsa.nn.optim import make_adam
from cgsa.nn.volume import count_volume
from cgsa.online.checks import CHECKS, example_batches
from cgsa.online.surgeon import PrunableLinear, Surgeon
from tests.machines import stream_windows
from tests.online.models import trained_bundle

SETTINGS: dict[str, object] = {"lr": 1e-3}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_keeps_the_contract(check: object) -> None:
    source = trained_bundle()
    assert callable(check)
    check(lambda: Surgeon(source, SETTINGS, seed=3), example_batches(source))


def test_adapts_under_the_contract_checks() -> None:
    source = trained_bundle()
    method = Surgeon(source, SETTINGS)
    chosen = torch.cat([cast(Tensor, method.step(x).accepted) for x in example_batches(source)])
    assert chosen.any()
    assert not chosen.all()
    after, before = method.state_dict(), source.network.state_dict()
    for name, weight in before.items():
        if name.startswith(("F", "G")):
            assert not torch.equal(after[f"network.model.{name}"], weight), name


class Literal:
    """SURGEON on plain layers: weight gradients are made from inputs and output gradients, view by view."""

    def __init__(self, source: ModelBundle, lr: float, seed: int) -> None:
        self.network = deepcopy(source.network).requires_grad_()
        self.layers = [module for module in self.network.modules() if isinstance(module, nn.Linear)]
        self.adam = make_adam(self.network.parameters(), lr)
        self.generator = torch.Generator().manual_seed(seed)

    @staticmethod
    def entropy(scores: Tensor) -> Tensor:
        return -(torch.softmax(scores, dim=1) * torch.log_softmax(scores, dim=1)).sum(dim=1)

    def shares(self, x: Tensor) -> list[float]:
        probe = x[torch.randperm(len(x), generator=self.generator)[:10]]
        self.network.zero_grad()
        torch.autograd.backward(self.entropy(self.network(probe)).mean())
        total = sum(layer.in_features for layer in self.layers)
        s = []
        for layer in self.layers:
            gradient = cast(Tensor, layer.weight.grad)
            s.append(float(gradient.norm()) / math.sqrt(gradient.numel()) * math.log(total / layer.in_features))
        return [value / max(s) for value in s]

    def step(self, x: Tensor) -> tuple[Tensor, list[float]]:
        shares = self.shares(x)
        inputs: dict[nn.Module, list[Tensor]] = {layer: [] for layer in self.layers}
        outputs: dict[nn.Module, list[Tensor]] = {layer: [] for layer in self.layers}

        def remember(layer: nn.Module, given: tuple[Tensor], output: Tensor) -> None:
            inputs[layer].append(given[0].detach())
            output.retain_grad()
            outputs[layer].append(output)

        hooks = [layer.register_forward_hook(remember) for layer in self.layers]
        view = strong_view(x, self.network.frontend.deviation, self.generator)
        scores, augmented = self.network(x), self.network(view)
        for hook in hooks:
            hook.remove()
        margin = 0.4 * math.log(3)
        terms = [math.exp(margin - h.item()) * h for h in self.entropy(scores) if h < margin]
        consistency = -(torch.softmax(scores, dim=1) * torch.log_softmax(augmented, dim=1)).sum(dim=1).mean()
        self.network.zero_grad()
        torch.autograd.backward(torch.stack(terms).mean() + 0.01 * 3 * consistency)
        for layer, share in zip(self.layers, shares, strict=True):
            gradient = torch.zeros_like(layer.weight)
            for given, output in zip(inputs[layer], outputs[layer], strict=True):
                order = given.abs().flatten().argsort(descending=True)
                pruned = torch.zeros(given.numel())
                largest = order[: int(share * given.numel())]
                pruned[largest] = given.flatten()[largest]
                gradient += cast(Tensor, output.grad).T @ pruned.view(given.shape)
            layer.weight.grad = gradient
        self.adam.step()
        return torch.softmax(scores.detach(), dim=1), shares


def test_equals_the_literal_method() -> None:
    source = trained_bundle()
    ours, literal = Surgeon(source, SETTINGS, seed=5), Literal(source, 1e-3, seed=5)
    # Windows of noise: those of a stream share samples, and of equal magnitudes any may be pruned.
    for x in example_batches(source):
        predicted, shares = literal.step(x)
        assert min(shares) < 0.9
        torch.testing.assert_close(ours.step(x).probabilities, predicted, rtol=0, atol=1e-4)
    for a, b in zip(ours._model.parameters(), literal.network.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-4)


def test_volumes() -> None:
    source = trained_bundle()
    size = count_parameters(source.network)
    with count_volume() as volume:
        Surgeon(source).step(stream_windows().gather(slice(0, 200)))
    assert (volume.forward, volume.backward) == (3 * size, 2 * size)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_pruning_changes_only_the_gradient_of_the_weight(share: float) -> None:
    generator = torch.Generator().manual_seed(0)
    plain = nn.Linear(16, 5)
    layer = PrunableLinear(16, 5)
    layer.load_state_dict(plain.state_dict())
    layer.share = share
    x = torch.randn(8, 16, generator=generator)
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    ours, expected = layer(mine), plain(theirs)
    assert torch.equal(ours, expected)
    torch.autograd.backward((ours**2).sum())
    torch.autograd.backward((expected**2).sum())
    torch.testing.assert_close(mine.grad, theirs.grad)
    torch.testing.assert_close(layer.bias.grad, plain.bias.grad)
    assert not torch.equal(cast(Tensor, layer.weight.grad), cast(Tensor, plain.weight.grad))


def test_only_the_kept_inputs_are_saved_for_the_backward_pass() -> None:
    layer = PrunableLinear(64, 5)
    layer.share = 0.25
    saved: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        layer(torch.randn(8, 64))
    assert sorted(saved) == [8 * 16, 8 * 16, 5 * 64]


def test_without_a_reliable_window_nothing_is_updated() -> None:
    """The mean over nothing would be NaN."""
    source = trained_bundle()
    method = Surgeon(source, {"margin": 1e-12})
    before = method.state_dict()
    for x in example_batches(source)[:3]:
        output = method.step(x)
        assert not cast(Tensor, output.accepted).any()
    after = method.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"lr": 0.0}, "lr 0"), ({"margin": 1.5}, "margin 1.5"), ({"probe": 0}, "probe 0")],
)
def test_invalid_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Surgeon(trained_bundle(), settings)
