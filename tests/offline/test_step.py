from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import cgsa.offline.step
from cgsa.nn.mlp import DiagnosisNet, build_seeded
from cgsa.nn.optim import Schedule, adam_state, lr_factor, make_adam
from cgsa.offline.base import Batch, Losses, ObjectiveConfig, Phase
from cgsa.offline.step import TrainingStep
from tests.machines import BOTH, CONDITION, SPEC, manifest, training_windows, training_windows_of_both

WINDOWS = training_windows()


def make_step(*, captured: bool, schedule: Schedule = "constant") -> tuple[TrainingStep, DiagnosisNet]:
    """A step whose loss uses everything a capture must keep apart: index, progress and random numbers."""
    network = build_seeded(0, lambda: DiagnosisNet(manifest().network, 2, SPEC.length, 3))
    norm = torch.nn.BatchNorm1d(3, affine=False)

    def loss(batch: Batch, progress: torch.Tensor) -> Losses:
        noise = torch.randn(batch.x.shape, generator=batch.generator)
        scores = norm(network(batch.x + 0.1 * noise))
        total = torch.nn.functional.cross_entropy(scores, batch.label) * (1 + progress)
        return Losses(total, {"classification": total}, scores, scores[:, :1])

    optimizer = make_adam(network.parameters(), 1e-3, schedule=schedule)
    step = TrainingStep(
        WINDOWS,
        [CONDITION],
        Phase("p", 1, (network, norm), loss),
        optimizer,
        batch_size=32,
        config=ObjectiveConfig(max_gradient_norm=1.0, schedule=schedule),
    )
    if captured:
        step._step = step._captured(32)
    return step, network


def run(step: TrainingStep) -> None:
    for epoch in range(2):
        step.begin_epoch(epoch)
        order = torch.randperm(len(WINDOWS), generator=torch.Generator().manual_seed(epoch))
        for n in range(5):
            step(order[n * 32 : n * 32 + 32], n / 10)


@pytest.fixture
def capture_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a capture on the CPU run nothing, and a replay run the function."""

    def capture(function: Callable[[], None], generator: torch.Generator) -> Callable[[], None]:
        return function

    monkeypatch.setattr(cgsa.offline.step, "capture", capture)


@pytest.mark.usefixtures("capture_on_the_cpu")
def test_a_captured_step_equals_a_plain_one() -> None:
    """Warm-up leaves no trace in weights, moments, running means or sums, and replays read what the call wrote."""
    plain, plain_network = make_step(captured=False)
    captured, captured_network = make_step(captured=True)
    run(plain)
    run(captured)
    for a, b in zip(plain_network.parameters(), captured_network.parameters(), strict=True):
        assert torch.equal(a, b)
    left, right = adam_state(plain.optimizer), adam_state(captured.optimizer)
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)
    for one, other in zip(plain.phase.modules, captured.phase.modules, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one.buffers(), other.buffers(), strict=True))
    assert plain.statistics() == captured.statistics()


@pytest.mark.usefixtures("capture_on_the_cpu")
def test_a_capture_in_the_middle_keeps_the_moments() -> None:
    plain, plain_network = make_step(captured=False)
    resumed, resumed_network = make_step(captured=False)
    run(plain)
    run(resumed)
    resumed._step = resumed._captured(32)
    run(plain)
    run(resumed)
    for a, b in zip(plain_network.parameters(), resumed_network.parameters(), strict=True):
        assert torch.equal(a, b)


def test_statistics_are_means_over_the_epoch() -> None:
    step, network = make_step(captured=False)
    step.begin_epoch(3)
    index = torch.arange(0, 320, 10)
    generator = torch.Generator().manual_seed(3)
    scores = network(WINDOWS.gather(index) + 0.1 * torch.randn(32, 2, SPEC.length, generator=generator))
    scores = torch.nn.functional.batch_norm(scores, None, None, training=True)
    step(index, 0.5)
    means = step.statistics()
    loss = 1.5 * torch.nn.functional.cross_entropy(scores, WINDOWS.labels[index])
    assert means["loss"] == pytest.approx(loss.item(), rel=1e-6)
    assert means["accuracy"] == (scores.argmax(1) == WINDOWS.labels[index]).double().mean()
    assert WINDOWS.conditions is not None
    c = (WINDOWS.conditions[index, 0].double() - CONDITION.minimum) / (CONDITION.maximum - CONDITION.minimum)
    every = (WINDOWS.conditions.double() - CONDITION.minimum) / (CONDITION.maximum - CONDITION.minimum)
    residual = ((c - scores[:, 0]) ** 2).mean() / every.var(correction=0)
    assert means["discriminator_r2"] == pytest.approx(1 - residual.item(), rel=1e-5)


def test_every_condition_is_scaled_by_its_own_range() -> None:
    windows = training_windows_of_both()
    seen: list[torch.Tensor] = []
    weight = torch.nn.Parameter(torch.zeros(2))

    def loss(batch: Batch, progress: torch.Tensor) -> Losses:
        seen.append(batch.condition)
        response = batch.condition.mean(dim=0) + weight
        return Losses(weight.sum(), response=response.expand(len(batch.x), 2))

    phase = Phase("p", 1, (), loss)
    step = TrainingStep(
        windows, BOTH.conditions, phase, make_adam([weight], 1e-3), batch_size=8, config=ObjectiveConfig()
    )
    step(torch.arange(len(windows)), 0.0)
    assert windows.conditions is not None
    torque, speed = windows.conditions.unbind(dim=1)
    torch.testing.assert_close(seen[0], torch.stack([torque / 10, (speed - 300) / 500], dim=1))
    # The mean of every condition explains nothing of any of them.
    assert step.statistics()["discriminator_r2"] == pytest.approx(0.0, abs=1e-5)


def test_a_scheduled_rate_is_set_at_every_step() -> None:
    step, _ = make_step(captured=False, schedule="one_cycle")
    for progress in (0.0, 0.3, 0.9):
        step(torch.arange(32), progress)
        (group,) = step.optimizer.param_groups
        assert group["lr"] == pytest.approx(1e-3 * lr_factor(progress, "one_cycle"))
