"""RoTTA against a literal transcription, window by window."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import cast

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
from cgsa.online.rotta import Rotta
from tests.machines import stream_windows
from tests.online.models import trained_bundle

SETTINGS: dict[str, object] = {"capacity": 10, "update_every": 24}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_keeps_the_contract(check: object) -> None:
    source = trained_bundle()
    assert callable(check)
    check(lambda: Rotta(source, SETTINGS, seed=3), example_batches(source))


def test_adapts_under_the_contract_checks() -> None:
    source = trained_bundle()
    method = Rotta(source, SETTINGS)
    accepted = torch.cat([cast(Tensor, method.step(x).accepted) for x in example_batches(source)])
    assert 10 < accepted.sum() < len(accepted)
    for name in ("student", "teacher"):
        weight = method.state_dict()[f"network.{name}.F.0.weight"]
        assert not torch.equal(weight, source.network.state_dict()["F.0.weight"])


@dataclass
class Item:
    window: Tensor
    label: int
    uncertainty: float
    age: int = 0


class Literal:
    """RoTTA with its memory as a list of items."""

    def __init__(self, source: ModelBundle, capacity: int, every: int, seed: int) -> None:
        self.teacher = deepcopy(source.network)
        self.student = deepcopy(source.network).requires_grad_()
        self.adam = make_adam(self.student.parameters(), 1e-3)
        self.capacity, self.every, self.seen = capacity, every, 0
        self.slots: list[Item | None] = [None] * capacity
        self.generator = torch.Generator().manual_seed(seed)

    def score(self, age: int, uncertainty: float) -> float:
        return 1 / (1 + math.exp(-age / self.capacity)) + uncertainty / math.log(3)

    def count(self, label: int) -> int:
        return sum(item is not None and item.label == label for item in self.slots)

    def add(self, new: Item) -> None:
        full = None not in self.slots
        place: int | None = None
        if self.count(new.label) < self.capacity / 3 and not full:
            place = self.slots.index(None)
        else:
            allowed = {new.label}
            if self.count(new.label) < self.capacity / 3:
                largest = max(self.count(label) for label in range(3))
                allowed = {label for label in range(3) if self.count(label) == largest}
            worst = -math.inf
            for slot, item in enumerate(self.slots):
                if item is not None and item.label in allowed and self.score(item.age, item.uncertainty) > worst:
                    place, worst = slot, self.score(item.age, item.uncertainty)
            if not worst > self.score(0, new.uncertainty):
                place = None
        if place is not None:
            self.slots[place] = new
        for item in self.slots:
            if item is not None:
                item.age += 1

    def step(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            p = torch.softmax(self.teacher(x), dim=1)
            logs = torch.log_softmax(self.teacher(x), dim=1)
        for n in range(len(x)):
            self.add(Item(x[n], int(p[n].argmax()), float(-(p[n] * logs[n]).sum())))
            self.seen += 1
            if self.seen % self.every == 0:
                self.update()
        return p

    def update(self) -> None:
        items = [item for item in self.slots if item is not None]
        windows = torch.stack([item.window for item in items])
        view = strong_view(windows, self.student.frontend.deviation, self.generator)
        with torch.no_grad():
            target = torch.softmax(self.teacher(windows), dim=1)
        logs = torch.log_softmax(self.student(view), dim=1)
        losses = []
        for n, item in enumerate(items):
            a = item.age / self.capacity
            losses.append(math.exp(-a) / (1 + math.exp(-a)) * -(target[n] * logs[n]).sum())
        self.adam.zero_grad()
        torch.autograd.backward(torch.stack(losses).mean())
        self.adam.step()
        with torch.no_grad():
            for kept, new in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
                kept.copy_(0.999 * kept + 0.001 * new)


@pytest.mark.parametrize("size", [7, 32, 60])
def test_equals_the_literal_method(size: int) -> None:
    source, windows = trained_bundle(), stream_windows()
    ours, literal = Rotta(source, SETTINGS, seed=5), Literal(source, 10, 24, seed=5)
    # Every eighth window, so that the stream reaches its fault.
    chosen = torch.arange(0, len(windows), 8)
    for index in chosen.split(size):  # type: ignore[no-untyped-call]
        x = windows.gather(index)
        torch.testing.assert_close(ours.step(x).probabilities, literal.step(x), rtol=0, atol=1e-5)
    kept = ours.memory["windows"][ours.memory["valid"]]
    assert torch.equal(kept, torch.stack([item.window for item in literal.slots if item is not None]))
    assert ours.memory["age"].tolist() == [item.age for item in literal.slots if item is not None]
    assert len(set(ours.memory["label"].tolist())) > 1
    for a, b in zip(ours._student.parameters(), literal.student.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-4)


def test_updates_are_counted_across_batches() -> None:
    """One pass of the teacher a batch, and teacher, student and one way back an update."""
    source = trained_bundle()
    size = count_parameters(source.network)
    method, windows = Rotta(source, {"update_every": 64}), stream_windows()
    for begin, end, updates in ((0, 40, 0), (40, 80, 1), (80, 120, 0), (120, 376, 4)):
        with count_volume() as volume:
            method.step(windows.gather(slice(begin, end)))
        assert (volume.forward, volume.backward) == ((1 + 2 * updates) * size, updates * size)


def test_no_class_displaces_the_others() -> None:
    """A long run of one class holds no more than its share once others have come."""
    source, windows = trained_bundle(), stream_windows()
    method = Rotta(source, {"capacity": 12})
    for begin in range(0, len(windows), 64):
        method.step(windows.gather(slice(begin, begin + 64)))
    counts = method.memory["label"][method.memory["valid"]].bincount(minlength=3)
    assert counts.max() == 4
    assert (counts > 0).sum() >= 2


def test_a_more_certain_window_stays_although_it_is_older() -> None:
    method = Rotta(trained_bundle(), {"capacity": 3, "lambda_t": 0.0})
    x = torch.arange(3.0)[:, None, None].expand(3, 2, 32)
    accepted = method._add_to_memory(x, torch.zeros(3, dtype=torch.int64), torch.tensor([0.2, 0.5, 0.1]))
    assert accepted.tolist() == [True, False, True]
    assert method.memory["windows"][0, 0, 0] == 2.0
    assert method.memory["valid"].tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"lr": 0.0}, "lr 0"), ({"capacity": 0}, "capacity 0"), ({"momentum": 1.5}, "momentum 1.5")],
)
def test_invalid_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Rotta(trained_bundle(), settings)
