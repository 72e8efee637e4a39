"""The OAFD-style method against a slow transcription that walks through windows one by one."""

from __future__ import annotations

from collections import deque
from copy import deepcopy
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from cgsa.errors import ConfigError
from cgsa.nn.augment import gaussian_noise, impulse_noise_view
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.mlp import count_parameters
from cgsa.nn.optim import make_adam
from cgsa.nn.volume import count_volume
from cgsa.online.checks import CHECKS, example_batches
from cgsa.online.oafd import Oafd
from tests.machines import bundle
from tests.online.models import varied_bundle

SETTINGS: dict[str, object] = {"lr": 1e-3, "momentum": 0.9, "bank": 2, "centroid": 1.0}


@dataclass
class Literal:
    """The method window by window; only the network passes are taken a batch at a time."""

    source: ModelBundle
    lr: float
    momentum: float
    centroid: float
    batches: int
    bank: deque[list[tuple[Tensor, int]]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.student = deepcopy(self.source.network).requires_grad_(requires_grad=True)
        self.teacher = deepcopy(self.source.network)
        self.adam = make_adam(self.student.parameters(), self.lr)
        self.generator = torch.Generator().manual_seed(0)

    def centroid_of(self, label: int) -> Tensor | None:
        members = [feature for batch in self.bank for feature, other in batch if other == label]
        return torch.stack(members).mean(dim=0) if members else None

    def step(self, x: Tensor) -> tuple[Tensor, list[float | None]]:
        deviation = self.student.frontend.deviation
        noisy = x + gaussian_noise(x, deviation, self.generator, size=0.05)
        noisy = impulse_noise_view(noisy, deviation, self.generator, share=0.01)
        y = torch.softmax(self.teacher(noisy), dim=1)
        labels = y.argmax(dim=1).tolist()
        features = self.student.features(x)
        log_p = torch.log_softmax(self.student.classify(features), dim=1)
        loss = torch.stack([-(y[i] * log_p[i]).sum() for i in range(len(x))]).mean()
        distances: list[Tensor | None] = [None] * len(x)
        if len(self.bank) == self.batches:
            for i, label in enumerate(labels):
                centroid = self.centroid_of(label)
                if centroid is not None:
                    distances[i] = 1 - cosine_similarity(features[i], centroid, dim=0)
        known = [distance for distance in distances if distance is not None]
        if known:
            loss = loss + self.centroid * torch.stack(known).mean()
        self.adam.zero_grad()
        torch.autograd.backward(loss)
        self.adam.step()
        with torch.no_grad():
            for slow, fast in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
                slow.copy_(self.momentum * slow + (1 - self.momentum) * fast)
        self.bank.append(list(zip(features.detach(), labels, strict=True)))
        if len(self.bank) > self.batches:
            self.bank.popleft()
        return y, [None if distance is None else float(distance.detach()) for distance in distances]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_keeps_the_contract(check: object) -> None:
    source = varied_bundle(scale=1.0)
    assert callable(check)
    check(lambda: Oafd(source, SETTINGS), example_batches(source))


def test_adapts_under_the_contract_checks() -> None:
    source = varied_bundle(scale=1.0)
    method = Oafd(source, SETTINGS)
    for x in example_batches(source):
        output = method.step(x)
        assert output.accepted is not None
        assert output.accepted.all()
    assert not output.evidence["centroid_distance"].isnan().all()
    state = method.state_dict()
    for name in ("student", "teacher"):
        assert not torch.equal(state[f"network.{name}.F.0.weight"], source.network.state_dict()["F.0.weight"])


def test_volumes_of_the_papers_table() -> None:
    source = varied_bundle(scale=1.0)
    size = count_parameters(source.network)
    method = Oafd(source, SETTINGS)
    for x in example_batches(source):
        with count_volume() as volume:
            method.step(x)
        assert (volume.forward, volume.backward) == (2 * size, size)


@pytest.mark.parametrize("sizes", [[16] * 6, [16, 3, 1, 20, 8, 16]], ids=["even", "ragged"])
def test_equals_the_slow_transcription(sizes: list[int]) -> None:
    source = varied_bundle(scale=1.0)
    literal = Literal(source, lr=1e-3, momentum=0.9, centroid=1.0, batches=2)
    ours = Oafd(source, SETTINGS)
    for size, x in zip(sizes, example_batches(source), strict=True):
        y, distances = literal.step(x[:size])
        output = ours.step(x[:size])
        torch.testing.assert_close(output.probabilities, y, rtol=1e-4, atol=1e-5)
        expected = torch.tensor([torch.nan if distance is None else distance for distance in distances])
        found = output.evidence["centroid_distance"]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)
    for ours_model, literal_model in ((ours._student, literal.student), (ours._teacher, literal.teacher)):
        for ours_weight, literal_weight in zip(ours_model.parameters(), literal_model.parameters(), strict=True):
            torch.testing.assert_close(ours_weight, literal_weight, rtol=1e-4, atol=1e-5)


def test_the_centroid_loss_starts_in_the_sixth_batch() -> None:
    """With it, the sixth update is the first to differ: it reaches the weights through the features."""
    source = varied_bundle(scale=1.0)
    with_it, without = (Oafd(source, {"centroid": weight}) for weight in (1.0, 0.0))
    same = []
    for x in example_batches(source, count=7):
        outputs = [method.step(x) for method in (with_it, without)]
        first_layers = [method._student.get_parameter("F.0.weight") for method in (with_it, without)]
        same.append(torch.equal(*first_layers))
        assert bool(outputs[0].evidence["centroid_distance"].isnan().all()) == (len(same) < 6)
    assert same == [True] * 5 + [False] * 2


def test_the_bank_contains_the_last_five_batches() -> None:
    source = varied_bundle(scale=1.0)
    method = Oafd(source)
    sizes = [4, 9, 1, 7, 3, 5, 2]
    labels = [
        method.step(x[:size]).evidence["pseudo_label"]
        for size, x in zip(sizes, example_batches(source, count=7), strict=True)
    ]
    assert torch.equal(method.memory["bank_labels"], torch.cat(labels[-5:]))
    assert method.memory["bank_features"].shape == (sum(sizes[-5:]), 8)


def test_windows_of_a_class_without_centroid_are_left_out() -> None:
    source = varied_bundle(scale=1.0)
    x = example_batches(source)[0]
    method = Oafd(source, {"bank": 1, "centroid": 1.0})
    labels = method.predict(x).argmax(dim=1)
    assert set(labels.tolist()) == {0, 1, 2}
    method.memory["batches"] += 1
    method.memory["bank_batches"] = torch.ones(4, dtype=torch.int64)
    method.memory["bank_features"] = torch.ones(4, 8)
    method.memory["bank_labels"] = labels[:1].expand(4)
    output = method.step(x)
    assert torch.equal(output.evidence["centroid_distance"].isnan(), labels != labels[0])
    assert all(bool(weight.isfinite().all()) for weight in method._student.parameters())


def test_a_bank_without_any_class_of_the_batch_leaves_only_the_teacher() -> None:
    source = varied_bundle(scale=1.0)
    x = example_batches(source)[0][:1]
    strayed, plain = Oafd(source, {"bank": 1, "centroid": 1.0}), Oafd(source, {"centroid": 0.0})
    other = (int(strayed.predict(x).argmax()) + 1) % 3
    strayed.memory["batches"] += 1
    strayed.memory["bank_batches"] = torch.ones(4, dtype=torch.int64)
    strayed.memory["bank_features"] = torch.ones(4, 8)
    strayed.memory["bank_labels"] = torch.full((4,), other)
    for method in (strayed, plain):
        method.step(x)
    for a, b in zip(strayed._student.parameters(), plain._student.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_teacher_gets_noise_and_the_student_does_not() -> None:
    source = varied_bundle(scale=1.0)
    x = example_batches(source)[0]
    method = Oafd(source, {"noise": 0.5})
    received: dict[str, Tensor] = {}
    for name, network in (("student", method._student), ("teacher", method._teacher)):
        network.frontend.register_forward_pre_hook(lambda _, inputs, name=name: received.update({name: inputs[0]}))
    method.step(x)
    assert torch.equal(received["student"], x)
    assert 0.4 < float((received["teacher"] - x).std()) < 0.8


@pytest.mark.parametrize(
    "settings",
    [{"lr": 0.0}, {"momentum": 1.5}, {"noise": -1.0}, {"impulses": 2.0}, {"bank": 0}, {"centroid": -1.0}],
)
def test_invalid_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        Oafd(bundle(), settings)
