"""Training a source model with one objective.

All randomness of an epoch comes from (seed, phase, epoch), so a training that
was stopped goes on from its last whole epoch with the same bits as one that
was not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import nn

from cgsa.config import as_table, bind
from cgsa.data.windows import Windows
from cgsa.errors import ConfigError, DataError, TrainingDivergedError
from cgsa.nn.bundle import Manifest, ModelBundle
from cgsa.nn.condition import DiscriminatorConfig
from cgsa.nn.mlp import DiagnosisNet, build_seeded
from cgsa.nn.optim import adam_state, load_adam_state, make_adam
from cgsa.nn.state import put_under, take_under
from cgsa.offline import OBJECTIVES
from cgsa.offline.base import Objective, Phase
from cgsa.offline.checkpoint import Checkpoint
from cgsa.offline.step import TrainingStep

CHANCE_MARGIN = 0.1
"""A final training accuracy this close to guessing is reported as a training that learnt nothing."""


@dataclass(frozen=True)
class TrainConfig:
    """Settings of the offline stage."""

    epochs: int = 200
    """Paper, section III-A3."""
    batch_size: int = 256
    """The paper states it for the online stage only."""
    step: int = 16
    """Samples from one training window to the next (paper, section III-A3)."""
    discriminator: DiscriminatorConfig = field(default_factory=DiscriminatorConfig)
    checkpoint_seconds: float = 30.0
    """At least this long between two checkpoints."""

    def __post_init__(self) -> None:
        if min(self.epochs, self.batch_size, self.step) < 1:
            raise ConfigError(
                f"{self.epochs} epochs, batches of {self.batch_size}, step {self.step}; expected at least 1 each"
            )


@dataclass(frozen=True)
class Progress:
    """Where a running training stands."""

    phase: str
    epoch: int
    epochs: int
    step: int
    steps: int
    row: Mapping[str, float | str] | None
    """Figures of the epoch, at its end."""


Report: TypeAlias = Callable[[Progress], None]
Row: TypeAlias = dict[str, float | str]


def train_source(
    windows: Windows,
    manifest: Manifest,
    config: TrainConfig,
    *,
    objective_settings: Mapping[str, object] | None = None,
    device: torch.device | str = "cpu",
    checkpoint: Path | None = None,
    report: Report | None = None,
) -> ModelBundle:
    """Train the model that ``manifest`` describes on labelled windows.

    Parameters
    ----------
    windows
        Training windows, with their conditions.
    manifest
        Classes, channels, network, objective and seed.
    config
        Epochs, batch size, discriminator.
    objective_settings
        What differs from the defaults of the objective.
    device
        Where to train.
    checkpoint
        Folder for checkpoints; training goes on from one that is there.
    report
        Called after every step.
    """
    _check(windows, manifest)
    objective_type = OBJECTIVES[manifest.objective]
    settings = bind(objective_type.Config, objective_settings or {}, f"objective {manifest.objective}")

    def build() -> nn.ModuleDict:
        network = DiagnosisNet(manifest.network, len(manifest.channels), manifest.window.length, len(manifest.classes))
        parts = int(windows.parts.max()) + 1
        objective = objective_type(settings, network, parts=parts, discriminator=config.discriminator)
        return nn.ModuleDict({"network": network, "objective": objective})

    modules = build_seeded(manifest.seed, build).to(device)
    network, objective = modules["network"], modules["objective"]
    if not isinstance(network, DiagnosisNet) or not isinstance(objective, Objective):
        raise TypeError(f"objective {manifest.objective!r} is no Objective")
    network.frontend.fit(windows.samples)
    signature = {
        "model": as_table(manifest),
        "training": as_table(config),
        "objective": as_table(settings),
        "data": _fingerprint(windows),
        "device": torch.device(device).type,
    }
    run = _Run(windows, manifest, config, settings.max_gradient_norm, settings.lr, modules, signature, checkpoint)
    history = run.train(objective.phases(config.epochs), report or (lambda _: None))
    discriminator = objective.condition_discriminator
    finished = replace(
        manifest,
        discriminator=None if discriminator is None else config.discriminator,
        notes=(*manifest.notes, *_judge(history, manifest)),
    )
    training = {
        **signature,
        "history": history,
        "trained_on": windows.intervals,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }
    return ModelBundle(
        finished,
        network.eval().requires_grad_(requires_grad=False),
        None if discriminator is None else discriminator.eval().requires_grad_(requires_grad=False),
        training,
    )


@dataclass
class _Run:
    """One training: its data, modules and where its checkpoints go."""

    windows: Windows
    manifest: Manifest
    config: TrainConfig
    max_gradient_norm: float | None
    lr: float
    modules: nn.ModuleDict
    signature: Mapping[str, object]
    checkpoint: Path | None

    @property
    def batch_size(self) -> int:
        """Windows a step; all of them where there are fewer than a batch."""
        return min(self.config.batch_size, len(self.windows))

    def train(self, phases: tuple[Phase, ...], report: Report) -> list[Row]:
        """Run all phases from the start or from the last checkpoint, and return the history."""
        saved = None if self.checkpoint is None else Checkpoint.load(self.checkpoint, self.signature)
        history = list(saved.history) if saved else []
        if saved:
            self.modules.load_state_dict(take_under("modules", saved.tensors))
        last_save = time.monotonic()
        for place, phase in enumerate(phases):
            if saved and place < saved.phase:
                continue
            optimizer = make_adam((p for module in phase.modules for p in module.parameters()), self.lr)
            begin = 0
            if saved and place == saved.phase:
                begin = saved.epoch
                load_adam_state(optimizer, take_under("optimizer", saved.tensors))
            if begin == phase.epochs:
                continue
            step = TrainingStep(
                self.windows,
                self.manifest.condition,
                phase,
                optimizer,
                batch_size=self.batch_size,
                max_gradient_norm=self.max_gradient_norm,
            )
            for epoch in range(begin, phase.epochs):
                history.append(self._epoch(place, epoch, step, report))
                ended = place + 1 == len(phases) and epoch + 1 == phase.epochs
                if self.checkpoint and (ended or time.monotonic() - last_save >= self.config.checkpoint_seconds):
                    tensors = put_under("modules", self.modules.state_dict())
                    tensors |= put_under("optimizer", adam_state(optimizer))
                    Checkpoint(place, epoch + 1, history, self.signature, tensors).save(self.checkpoint)
                    last_save = time.monotonic()
        return history

    def _epoch(self, place: int, epoch: int, step: TrainingStep, report: Report) -> Row:
        """Walk once through the windows in random order; an incomplete last batch waits for another epoch."""
        windows, size, phase = self.windows, self.batch_size, step.phase
        seed = int(np.random.SeedSequence([self.manifest.seed, place, epoch]).generate_state(1, np.uint64)[0] >> 1)
        order = torch.randperm(len(windows), generator=torch.Generator().manual_seed(seed)).to(windows.device)
        step.begin_epoch(seed)
        steps = len(windows) // size
        for number in range(steps):
            step(order[number * size : (number + 1) * size], (epoch * steps + number) / (phase.epochs * steps))
            if number + 1 < steps:
                report(Progress(phase.name, epoch, phase.epochs, number + 1, steps, None))
        figures = step.figures()
        if not math.isfinite(figures["loss"]):
            raise TrainingDivergedError(
                f"{self.manifest.objective} training diverged in epoch {epoch + 1} of {phase.epochs}: "
                f"loss {figures['loss']}; lower the learning rate (now {self.lr:g}) or clip the gradient "
                f"(max_gradient_norm, now {self.max_gradient_norm}). "
                + (f"The last good checkpoint is in {self.checkpoint}." if self.checkpoint else "")
            )
        row: Row = {"phase": phase.name, "epoch": epoch + 1, **figures}
        report(Progress(phase.name, epoch, phase.epochs, steps, steps, row))
        return row


def _check(windows: Windows, manifest: Manifest) -> None:
    if "condition" in OBJECTIVES[manifest.objective].needs and windows.conditions is None:
        raise DataError(f"objective {manifest.objective!r} needs the condition of every window, and these have none")
    if windows.channels != manifest.channels:
        raise DataError(f"windows have channels {windows.channels}; the manifest says {manifest.channels}")
    counts = torch.bincount(windows.labels, minlength=len(manifest.classes)).tolist()
    empty = [name for name, count in zip(manifest.classes, counts, strict=True) if count == 0]
    if empty:
        raise DataError(f"no training window of class {', '.join(empty)}; every class needs a recording")


def _fingerprint(windows: Windows) -> dict[str, object]:
    """Return numbers that change when the training data change."""
    return {
        "windows": len(windows),
        "samples": windows.samples.shape[1],
        "sums": windows.samples.double().abs().sum(dim=1).cpu().tolist(),
        "classes": torch.bincount(windows.labels).cpu().tolist(),
    }


def _judge(history: list[Row], manifest: Manifest) -> tuple[str, ...]:
    """Say in words when training ended without having learnt anything."""
    accuracy = next((float(row["accuracy"]) for row in reversed(history) if "accuracy" in row), 1.0)
    chance = 1.0 / len(manifest.classes)
    if accuracy > chance + CHANCE_MARGIN:
        return ()
    note = (
        f"training failed: final training accuracy {accuracy:.3f} is near chance ({chance:.3f}); "
        f"try another seed, a lower learning rate or a smaller gamma"
    )
    return (note,)
