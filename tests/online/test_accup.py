"""ACCUP against a literal transcription with lists of supports and a loss of two loops."""

from __future__ import annotations

from copy import deepcopy
from typing import cast

import pytest
import torch
from torch import Tensor, nn

from cgsa.errors import ConfigError
from cgsa.nn.augment import magnitude_warp
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig, build_seeded, count_parameters
from cgsa.nn.optim import make_adam
from cgsa.nn.volume import count_volume
from cgsa.online.accup import Accup
from cgsa.online.checks import CHECKS, example_batches
from tests.machines import bundle, manifest, stream_windows
from tests.online.models import trained_bundle

SETTINGS: dict[str, object] = {"supports": 5, "tau": 8.0}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_keeps_the_contract(check: object) -> None:
    source = trained_bundle()
    assert callable(check)
    check(lambda: Accup(source, SETTINGS, seed=3), example_batches(source))


def test_adapts_with_classifier_and_prototypes() -> None:
    source = trained_bundle()
    method = Accup(source, SETTINGS)
    by_prototype = torch.cat([method.step(x).evidence["by_prototype"] for x in example_batches(source)])
    assert by_prototype.any()
    assert not by_prototype.all()
    assert not torch.equal(method.state_dict()["network.model.F.0.weight"], source.network.state_dict()["F.0.weight"])


class Literal:
    """ACCUP with one list of (entropy, feature) a class."""

    def __init__(self, source: ModelBundle, supports: int, tau: float, seed: int) -> None:
        self.network = deepcopy(source.network).requires_grad_()
        self.adam = make_adam(self.network.parameters(), 3e-4)
        self.supports, self.tau = supports, tau
        self.generator = torch.Generator().manual_seed(seed)
        self.kept: list[list[tuple[float, Tensor]]] = [[], [], []]
        last = cast(nn.Linear, self.network.G[-1])
        for row in last.weight.detach().clone():
            self.keep(row, last(row).detach())

    @staticmethod
    def entropy(scores: Tensor) -> float:
        p = torch.softmax(scores, dim=0)
        return float(-(p * torch.log_softmax(scores, dim=0)).sum())

    def keep(self, feature: Tensor, scores: Tensor) -> None:
        self.kept[int(scores.argmax())].append((self.entropy(scores), feature))

    def step(self, x: Tensor) -> tuple[Tensor, list[bool]]:
        warped = magnitude_warp(x, self.generator, size=0.1)
        z_r, z_a = self.network.features(x), self.network.features(warped)
        s_r, s_a = self.network.classify(z_r), self.network.classify(z_a)
        z, s = ((z_r + z_a) / 2).detach(), (s_r + s_a) / 2
        for n in range(len(x)):
            self.keep(z[n], s[n].detach())
        for items in self.kept:
            items.sort(key=lambda item: item[0])
            del items[self.supports :]
        prototypes = [
            torch.stack([f for _, f in items]).mean(dim=0) if items else torch.zeros(8) for items in self.kept
        ]
        emitted, by_prototype = [], []
        for n in range(len(x)):
            near = self.tau * torch.stack([nn.functional.cosine_similarity(z[n], c, dim=0) for c in prototypes])
            by_prototype.append(self.entropy(near) < self.entropy(s[n].detach()))
            emitted.append(torch.softmax(near if by_prototype[-1] else s[n].detach(), dim=0))
        probabilities = torch.stack(emitted)
        self.learn(torch.cat([s_r, s_a, s]), probabilities.argmax(dim=1).tolist() * 3)
        return probabilities, by_prototype

    def learn(self, scores: Tensor, labels: list[int]) -> None:
        unit = [row / row.norm() for row in scores]
        total = torch.zeros(())
        for i in range(len(unit)):
            weights = [torch.exp(unit[i] @ unit[a] / 0.6) for a in range(len(unit)) if a != i]
            positives = [j for j in range(len(unit)) if j != i and labels[j] == labels[i]]
            logs = [unit[i] @ unit[j] / 0.6 - torch.stack(weights).sum().log() for j in positives]
            total = total - torch.stack(logs).mean()
        self.adam.zero_grad()
        torch.autograd.backward(total / len(unit))
        self.adam.step()


def test_equals_the_literal_method() -> None:
    source, windows = trained_bundle(), stream_windows()
    ours, literal = Accup(source, SETTINGS, seed=5), Literal(source, 5, 8.0, seed=5)
    for begin in (0, 500, 800, 1300):
        x = windows.gather(slice(begin, begin + 12))
        predicted, by_prototype = literal.step(x)
        output = ours.step(x)
        torch.testing.assert_close(output.probabilities, predicted, rtol=0, atol=1e-4)
        assert output.evidence["by_prototype"].tolist() == by_prototype
    sizes = [len(items) for items in literal.kept]
    assert ours.memory["valid"].sum(dim=1).tolist() == sizes
    assert max(sizes) == 5
    for a, b in zip(ours._model.parameters(), literal.network.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-4)


def test_volumes() -> None:
    source = trained_bundle()
    size = count_parameters(source.network)
    with count_volume() as volume:
        Accup(source).step(stream_windows().gather(slice(0, 200)))
    # The rows of the last layer pass it once before the stream.
    before = sum(parameter.numel() for parameter in source.network.G.parameters())
    assert (volume.forward - before, volume.backward) == (2 * size, size)


def test_classifier_and_prototypes_both_give_probabilities() -> None:
    """The scores of prototypes are cosines, not probabilities; they must be made comparable."""
    source = trained_bundle()
    output = Accup(source, {"tau": 50.0}).step(example_batches(source)[0])
    assert output.evidence["by_prototype"].any()
    assert output.probabilities.min() >= 0
    torch.testing.assert_close(output.probabilities.sum(dim=1), torch.ones(len(output.probabilities)))


def test_a_class_without_supports_attracts_nothing() -> None:
    """The untrained model gives one class to all, so the others have an empty bank or a row of the last layer."""
    source = bundle()
    method = Accup(source, {"supports": 3})
    method.memory["valid"][0] = False
    method.memory["entropy"][0] = torch.inf
    method.memory["features"][0] = 0.0
    for x in example_batches(source):
        assert torch.isfinite(method.step(x).probabilities).all()
    assert not method.memory["valid"][0].any()


def test_prototypes_do_not_depend_on_the_tap() -> None:
    """Prototypes live before the last layer; with an early tap that is inside G."""
    late = bundle()
    config = NetworkConfig(hidden=(24, 12, 8), tap=12)
    early = build_seeded(0, lambda: DiagnosisNet(config, 2, 32, 3))
    with torch.no_grad():
        for ours, theirs in zip(early.parameters(), late.network.parameters(), strict=True):
            ours.copy_(theirs)
    tapped = ModelBundle(manifest(), early.eval().requires_grad_(requires_grad=False), None)
    first, second = Accup(late, SETTINGS), Accup(tapped, SETTINGS)
    for x in example_batches(late):
        assert torch.equal(first.step(x).probabilities, second.step(x).probabilities)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"lr": 0.0}, "lr 0"), ({"supports": 0}, "supports 0"), ({"temperature": 0.0}, "temperature 0")],
)
def test_invalid_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Accup(trained_bundle(), settings)
