"""Tri-Training against the article's pseudo-code."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from typing import cast

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from cgsa.errors import ConfigError
from cgsa.nn.mlp import DiagnosisNet, count_parameters
from cgsa.nn.optim import make_adam
from cgsa.nn.volume import count_volume
from cgsa.online.checks import CHECKS, example_batches
from cgsa.online.tri_training import TriTraining
from tests.machines import stream_windows
from tests.online.models import source_windows, trained_bundle

SETTINGS: dict[str, object] = {"labelled": 48, "bootstrap_steps": 3}


def make(settings: Mapping[str, object] | None = None, *, seed: int = 3, trained: int = 20) -> TriTraining:
    chosen = {**SETTINGS, **(settings or {})}
    return TriTraining(trained_bundle(trained), chosen, seed=seed, source=source_windows())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_keeps_the_contract(check: object) -> None:
    assert callable(check)
    check(make, example_batches(trained_bundle()))


def test_adapts_under_the_contract_checks() -> None:
    method = make()
    before = method.state_dict()
    chosen = torch.cat([cast(Tensor, method.step(x).accepted) for x in example_batches(trained_bundle())])
    after = method.state_dict()
    assert chosen.any()
    assert not chosen.all()
    for i in range(3):
        name = f"network.member{i}.F.0.weight"
        assert not torch.equal(before[name], after[name])


class Literal:
    """Table 1 of the article; members are measured one after the other, each with current errors."""

    def __init__(self, members: list[DiagnosisNet], generator: torch.Generator, limit: int, lr: float) -> None:
        self.h = members
        self.adam = [make_adam(member.parameters(), lr) for member in members]
        self.generator, self.limit = generator, limit
        self.e_before, self.l_before, self.times = [0.5] * 3, [0] * 3, [0] * 3

    def measure_error(self, i: int, L: tuple[Tensor, Tensor]) -> float:
        j, k = sorted({0, 1, 2} - {i})
        with torch.no_grad():
            pair = [self.h[m](L[0]).argmax(dim=1).tolist() for m in (j, k)]
        agreed = [(a, int(truth)) for a, b, truth in zip(*pair, L[1], strict=True) if a == b]
        wrong = [a for a, truth in agreed if a != truth]
        return len(wrong) / len(agreed)

    def step(self, x: Tensor) -> tuple[Tensor, set[int]]:
        with torch.no_grad():
            votes = [torch.softmax(h(x), dim=1) for h in self.h]
        L: list[tuple[Tensor, Tensor]] = []
        for _ in range(3):
            index = torch.randint(len(source_windows()), (48,), generator=self.generator)
            L.append((source_windows().gather(index), source_windows().labels[index]))
        learnt: set[int] = set()
        e = [self.measure_error(i, L[i]) for i in range(3)]
        for i in range(3):
            j, k = sorted({0, 1, 2} - {i})
            label = votes[j].argmax(dim=1)
            L_i = [n for n in range(len(x)) if label[n] == votes[k].argmax(dim=1)[n]]
            chosen = self.update(i, e[i], L_i)
            if chosen is None:
                continue
            windows = torch.cat([L[i][0], torch.stack([x[n] for n in chosen])])
            labels = torch.cat([L[i][1], torch.stack([label[n] for n in chosen])])
            self.adam[i].zero_grad()
            torch.autograd.backward(cross_entropy(self.h[i](windows), labels))
            self.adam[i].step()
            learnt |= set(chosen)
            e[j], e[k] = self.measure_error(j, L[j]), self.measure_error(k, L[k])
        return (votes[0] + votes[1] + votes[2]) / 3, learnt

    def update(self, i: int, e: float, L_i: list[int]) -> list[int] | None:
        if self.times[i] == self.limit:
            return None
        chosen = None
        before = self.e_before[i]
        if e < before:
            size = self.l_before[i] or math.floor(e / (before - e) + 1)
            if size < len(L_i):
                if e * len(L_i) < before * size:
                    chosen = L_i
                elif size > e / (before - e):
                    order = torch.randperm(len(L_i), generator=self.generator).tolist()
                    chosen = [L_i[n] for n in order[: math.ceil(before * size / e - 1)]]
        if chosen is not None:
            self.e_before[i], self.l_before[i], self.times[i] = e, len(chosen), self.times[i] + 1
        return chosen


# With the large rate a retrained member changes so much that the next one is measured with other errors.
@pytest.mark.parametrize(("limit", "retrained", "lr"), [(1, 1, 1e-4), (100, 2, 1e-4), (100, 2, 0.05)])
def test_equals_the_article(limit: int, retrained: int, lr: float) -> None:
    windows = stream_windows()
    # A model that still errs, so that errors can fall more than once.
    ours = make({"retrainings": limit}, seed=5, trained=8)
    ours.optimizers = {
        name: make_adam(net.parameters(), lr) for name, net in zip(ours.networks, ours._members, strict=True)
    }
    literal = Literal(deepcopy(ours._members), ours.generator.clone_state(), limit, lr)
    for begin in range(0, 1200, 120):
        x = windows.gather(slice(begin, begin + 40))
        predicted, learnt = literal.step(x)
        output = ours.step(x)
        torch.testing.assert_close(output.probabilities, predicted)
        assert set(cast(Tensor, output.accepted).nonzero()[:, 0].tolist()) == learnt
    assert ours.memory["taught"].tolist() == literal.l_before
    assert ours.memory["retrained"].tolist() == literal.times
    assert retrained <= max(literal.times) <= limit
    for member, twin in zip(ours._members, literal.h, strict=True):
        for a, b in zip(member.parameters(), twin.parameters(), strict=True):
            assert torch.equal(a, b)


def test_volumes_of_a_stream() -> None:
    """Nine passes a batch; for each retraining one forward and backward, and four forward."""
    size = count_parameters(trained_bundle().network)
    method, windows = make(), stream_windows()
    starts = range(0, 1200, 60)
    with count_volume() as volume:
        for begin in starts:
            method.step(windows.gather(slice(begin, begin + 60)))
    assert method.memory["retrained"].tolist() == [1, 1, 1]
    assert (volume.forward, volume.backward) == ((9 * len(starts) + 15) * size, 3 * size)


def test_members_differ_before_the_stream() -> None:
    method = make()
    weights = [next(member.parameters()) for member in method._members]
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])


@pytest.mark.parametrize(
    ("error", "agreed", "expected"),
    [
        (0.5, 40, 0),  # no better than before
        (0.6, 40, 0),
        (0.1, 1, 0),  # l' = 1: a lesson must be larger
        (0.1, 4, 4),  # 0.1 * 4 < 0.5 * 1
        (0.1, 40, 4),  # too large: cut to ceil(0.5 * 1 / 0.1 - 1)
        (0.0, 40, 40),  # a pair without error teaches all
    ],
)
def test_lessons_have_the_size_of_the_article(error: float, agreed: int, expected: int) -> None:
    method = make()
    lesson = method._admit(1, error, torch.arange(100, 100 + agreed))
    assert len(lesson) == expected
    assert set(lesson.tolist()) <= set(range(100, 100 + agreed))
    assert method.memory["taught"].tolist() == [0, expected, 0]


def test_a_pair_that_never_agrees_cannot_teach() -> None:
    method = make()
    with torch.no_grad():
        for member, bias in zip(method._members, torch.eye(3), strict=True):
            cast(torch.nn.Linear, member.G[-1]).bias.copy_(1e6 * bias)
    x = stream_windows().gather(slice(0, 20))
    assert method._measure(0, x, torch.zeros(20, dtype=torch.int64)) == 0.5


def test_needs_training_windows() -> None:
    with pytest.raises(ConfigError, match="TriTraining needs the training windows"):
        TriTraining(trained_bundle())


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"lr": 0.0}, "lr 0"), ({"labelled": 0}, "labelled 0"), ({"retrainings": -1}, "retrainings -1")],
)
def test_invalid_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(settings)
