"""AdaContrast against a slow transcription that walks through windows one by one."""

from __future__ import annotations

from collections import deque
from copy import deepcopy
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from cgsa.errors import ConfigError
from cgsa.nn.augment import strong_view
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.mlp import count_parameters
from cgsa.nn.optim import make_adam
from cgsa.nn.volume import count_volume
from cgsa.online.adacontrast import AdaContrast
from cgsa.online.checks import CHECKS, example_batches
from tests.machines import bundle
from tests.online.models import varied_bundle

SETTINGS: dict[str, object] = {"lr": 1e-3, "momentum": 0.9, "queue": 50}


@dataclass
class Literal:
    """The method window by window; only the network passes are taken a batch at a time."""

    source: ModelBundle
    lr: float
    m: float
    N: int
    M: int
    contrast: float
    diversity: float
    tau: float = 0.07
    bank: deque[tuple[Tensor, Tensor]] = field(default_factory=deque)
    queue: deque[tuple[Tensor, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.student = deepcopy(self.source.network).requires_grad_(requires_grad=True)
        self.momentum = deepcopy(self.source.network)
        self.adam = make_adam(self.student.parameters(), self.lr)
        self.generator = torch.Generator().manual_seed(0)

    def pseudo_label(self, feature: Tensor, p: Tensor) -> int:
        if self.bank:
            by_distance = sorted(self.bank, key=lambda entry: -float(cosine_similarity(feature, entry[0], dim=0)))
            p = torch.stack([probabilities for _, probabilities in by_distance[: self.N]]).mean(dim=0)
        return int(p.argmax())

    def info_nce(self, q: Tensor, k: Tensor, label: int) -> Tensor:
        positive = torch.exp(cosine_similarity(q, k, dim=0) / self.tau)
        total = positive
        for other, other_label in self.queue:
            if other_label != label:
                total = total + torch.exp(cosine_similarity(q, other, dim=0) / self.tau)
        return -torch.log(positive / total)

    def step(self, x: Tensor) -> tuple[Tensor, list[int]]:
        deviation = self.student.frontend.deviation
        with torch.no_grad():
            w = self.student.features(x)
            p = torch.softmax(self.student.classify(w), dim=1)
            labels = [self.pseudo_label(w[i], p[i]) for i in range(len(x))]
        x_q = strong_view(x, deviation, self.generator)
        x_k = strong_view(x, deviation, self.generator)
        q = self.student.features(x_q)
        p_q = torch.softmax(self.student.classify(q), dim=1)
        with torch.no_grad():
            k = self.momentum.features(x_k)
            w_m = self.momentum.features(x)
            p_m = torch.softmax(self.momentum.classify(w_m), dim=1)
        ce = torch.stack([-torch.log(p_q[i, label]) for i, label in enumerate(labels)]).mean()
        ctr = torch.stack([self.info_nce(q[i], k[i], label) for i, label in enumerate(labels)]).mean()
        mean = p_q.mean(dim=0)
        div = (mean * torch.log(mean)).sum()
        self.adam.zero_grad()
        torch.autograd.backward(ce + self.contrast * ctr + self.diversity * div)
        self.adam.step()
        with torch.no_grad():
            for slow, fast in zip(self.momentum.parameters(), self.student.parameters(), strict=True):
                slow.copy_(self.m * slow + (1 - self.m) * fast)
        for i, label in enumerate(labels):
            self.bank.append((w_m[i], p_m[i]))
            self.queue.append((k[i], label))
            if len(self.bank) > self.M:
                self.bank.popleft()
                self.queue.popleft()
        return p, labels


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_keeps_the_contract(check: object) -> None:
    source = varied_bundle(scale=1.0)
    assert callable(check)
    check(lambda: AdaContrast(source, SETTINGS), example_batches(source))


def test_adapts_under_the_contract_checks() -> None:
    source = varied_bundle(scale=1.0)
    method = AdaContrast(source, SETTINGS)
    for x in example_batches(source):
        output = method.step(x)
        assert output.accepted is not None
        assert output.accepted.all()
    state = method.state_dict()
    for name in ("student", "momentum"):
        assert not torch.equal(state[f"network.{name}.F.0.weight"], source.network.state_dict()["F.0.weight"])


def test_volumes_of_the_papers_table() -> None:
    source = varied_bundle(scale=1.0)
    size = count_parameters(source.network)
    method = AdaContrast(source, SETTINGS)
    for x in example_batches(source):
        with count_volume() as volume:
            method.step(x)
        assert (volume.forward, volume.backward) == (4 * size, size)


@pytest.mark.parametrize(("contrast", "diversity"), [(1.0, 1.0), (0.5, 0.0), (0.0, 2.0)])
def test_equals_the_slow_transcription(contrast: float, diversity: float) -> None:
    source = varied_bundle(scale=1.0)
    literal = Literal(source, lr=1e-3, m=0.9, N=10, M=50, contrast=contrast, diversity=diversity)
    ours = AdaContrast(source, {**SETTINGS, "contrast": contrast, "diversity": diversity})
    refined = 0
    for x in example_batches(source, count=6, size=16):
        p, labels = literal.step(x)
        output = ours.step(x)
        torch.testing.assert_close(output.probabilities, p, rtol=1e-4, atol=1e-5)
        assert output.evidence["pseudo_label"].tolist() == labels
        refined += int((output.evidence["pseudo_label"] != p.argmax(dim=1)).sum())
    for ours_model, literal_model in ((ours._student, literal.student), (ours._momentum_model, literal.momentum)):
        for ours_weight, literal_weight in zip(ours_model.parameters(), literal_model.parameters(), strict=True):
            torch.testing.assert_close(ours_weight, literal_weight, rtol=1e-4, atol=1e-5)
    assert refined > 0


def test_the_memory_starts_empty() -> None:
    source = varied_bundle(scale=1.0)
    method = AdaContrast(source, SETTINGS)
    assert all(len(tensor) == 0 for tensor in method.memory.values())
    x = example_batches(source)[0]
    output = method.step(x)
    assert torch.equal(output.evidence["pseudo_label"], output.probabilities.argmax(dim=1))


def test_the_memory_contains_the_latest_windows() -> None:
    source = varied_bundle(scale=1.0)
    method = AdaContrast(source, SETTINGS)
    batches = example_batches(source)
    labels = torch.cat([method.step(x).evidence["pseudo_label"] for x in batches])
    assert torch.equal(method.memory["queue_labels"], labels[-50:])
    assert {len(tensor) for tensor in method.memory.values()} == {50}


def test_neighbours_outvote_a_window_that_has_no_vote() -> None:
    source = varied_bundle(scale=1.0)
    method = AdaContrast(source, {"neighbours": 3})
    x = example_batches(source)[0][:1]
    own = int(method.predict(x).argmax())
    other = (own + 1) % 3
    near = torch.nn.functional.normalize(method._student.features(x).detach(), dim=1)
    certain = torch.eye(3)
    # Two of the three nearest say something else; a crowd that is far away agrees with the window and must not count.
    method.memory["bank_features"] = torch.cat([near.expand(3, -1), -near.expand(20, -1)])
    method.memory["bank_probabilities"] = torch.cat([certain[[other, other, own]], certain[[own] * 20]])
    output = method.step(x)
    assert output.evidence["pseudo_label"].tolist() == [other]
    assert int(output.probabilities.argmax()) == own


def test_keys_of_the_same_pseudo_label_are_no_negatives() -> None:
    method = AdaContrast(bundle())
    query = torch.nn.functional.normalize(torch.randn(4, 8, generator=torch.Generator().manual_seed(1)), dim=1)
    label = torch.tensor([0, 1, 1, 2])
    method.memory["queue_keys"] = query.repeat(3, 1)
    method.memory["queue_labels"] = torch.zeros(12, dtype=torch.int64)
    assert float(method._contrast(query[:1], query[:1], label[:1])) == 0.0
    assert float(method._contrast(query[1:2], query[1:2], label[1:2])) > 0.5


def test_without_diversity_a_batch_of_one_class_is_not_torn_apart() -> None:
    """The diversity term wants all classes in every batch: it lowers the confidence in the class that is there."""
    source = varied_bundle(scale=1.0)
    x = example_batches(source)[0]
    label = int(source.network(x).argmax(dim=1).mode().values)
    one_class = x[source.network(x).argmax(dim=1) == label]
    left = {}
    for weight in (0.0, 5.0):
        method = AdaContrast(source, {"lr": 1e-2, "contrast": 0.0, "diversity": weight})
        for _ in range(10):
            method.step(one_class)
        left[weight] = float(method.predict(one_class)[:, label].mean())
    assert left[0.0] > 0.9
    assert left[5.0] < left[0.0] - 0.2


@pytest.mark.parametrize(
    "settings",
    [
        {"lr": 0.0},
        {"momentum": 1.5},
        {"temperature": 0.0},
        {"neighbours": 0},
        {"queue": 0},
        {"contrast": -1.0},
        {"diversity": -1.0},
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        AdaContrast(bundle(), settings)
