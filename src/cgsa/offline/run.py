"""One training run, from its seed or from its last checkpoint to a finished model.

All randomness of an epoch comes from (seed, phase, epoch), so an interrupted
training resumes from its last complete epoch with bit-identical results.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Adam

from cgsa.config import as_table, bind
from cgsa.data.windows import Windows
from cgsa.errors import DataError, TrainingDivergedError
from cgsa.nn.bundle import Manifest, ModelBundle
from cgsa.nn.dropout import set_dropout_generator
from cgsa.nn.mlp import DiagnosisNet, build_seeded
from cgsa.nn.optim import adam_state, load_adam_state, make_adam
from cgsa.nn.state import add_prefix, select_prefix
from cgsa.offline import OBJECTIVES
from cgsa.offline.base import Objective, ObjectiveConfig, Phase
from cgsa.offline.checkpoint import Checkpoint
from cgsa.offline.config import TrainConfig
from cgsa.offline.inspection import epoch_deviation, inspect_model, sample_windows
from cgsa.offline.references import References
from cgsa.offline.stacked import StackedTraining, StackSlot
from cgsa.offline.step import TrainingStep

MAX_SAVING_SHARE = 0.05
"""Checkpoints take at most about this share of the time, however slow the disk is."""

Row: TypeAlias = dict[str, float | str]


@dataclass(frozen=True)
class Progress:
    """Progress of a training run."""

    phase: str
    epoch: int
    epochs: int
    step: int
    steps: int
    row: Mapping[str, float | str] | None
    """Figures of the epoch, at its end."""


ProgressCallback: TypeAlias = Callable[[Progress], None]


@dataclass
class TrainingRun:
    """One training run: its data, its modules and the folder of its checkpoints."""

    windows: Windows
    manifest: Manifest
    config: TrainConfig
    settings: ObjectiveConfig
    network: DiagnosisNet
    objective: Objective
    signature: Mapping[str, object]
    """Settings and data; a checkpoint of a run with another signature is refused."""
    checkpoint: Path | None
    others: int
    """Number of other runs that wait while this one saves."""
    references: References | None = None
    prepared: Tensor | None = None
    """Output of the front-end for all windows, if it was computed in advance."""
    stack: StackedTraining | None = None
    """Takes the steps of several runs together; None if this run takes its own."""
    history: list[Row] = field(default_factory=list)

    @classmethod
    def start(
        cls,
        windows: Windows,
        manifest: Manifest,
        config: TrainConfig,
        *,
        data: Mapping[str, object],
        objective_settings: Mapping[str, object],
        device: torch.device,
        checkpoint: Path | None,
        others: int,
    ) -> TrainingRun:
        """Check the data and build the modules from the seed; ``data`` is the fingerprint of the windows."""
        _check(windows, manifest)
        objective_type = OBJECTIVES[manifest.objective]
        settings = bind(objective_type.Config, objective_settings, f"objective {manifest.objective}")

        def build() -> Objective:
            network = DiagnosisNet(
                manifest.network, len(manifest.channels), manifest.window.length, len(manifest.classes)
            )
            return objective_type(
                settings,
                network,
                parts=int(windows.stages.max()) + 1,
                conditions=len(manifest.conditions),
                discriminator=config.discriminator,
                views=config.views,
            )

        signature = {
            "model": as_table(manifest),
            "training": as_table(config),
            "objective": as_table(settings),
            "data": data,
            "device": device.type,
        }
        objective = build_seeded(manifest.seed, build).to(device)
        network = objective.network.to(device)
        run = cls(windows, manifest, config, settings, network, objective, signature, checkpoint, others)
        network.frontend.fit(windows.samples, sample_windows(windows))
        if network.reference is not None:
            generator = torch.Generator().manual_seed(manifest.seed)
            run.references = References(windows, network, seconds=config.reference_seconds, generator=generator)
            network.reference.copy_(run.references.mean)
        return run

    @property
    def modules(self) -> nn.ModuleDict:
        """Network and objective, under the names that checkpoints use."""
        return nn.ModuleDict({"network": self.network, "objective": self.objective})

    @property
    def batch_size(self) -> int:
        """Windows per step; all of them if there are fewer than a batch."""
        return min(self.config.batch_size, len(self.windows))

    def finish(self) -> ModelBundle:
        """Return the trained model with a record of its training."""
        self.modules.eval().requires_grad_(requires_grad=False)
        set_dropout_generator(self.modules, None)
        if self.stack is not None:
            _release_from_stack(self.modules)
        discriminator = self.objective.condition_discriminator
        manifest = inspect_model(self.manifest, self.network, discriminator, self.windows, self.history)
        training = {
            **self.signature,
            "history": self.history,
            "trained_on": self.windows.intervals,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "stacked": self.stack is not None,
        }
        shape = None if discriminator is None else self.config.discriminator
        return ModelBundle(replace(manifest, discriminator=shape), self.network, discriminator, training=training)

    def steps(self, report: ProgressCallback | None = None) -> Iterator[None]:
        """Train through all phases, from the start or from the last checkpoint; yields after every training step."""
        saved = None if self.checkpoint is None else Checkpoint.load(self.checkpoint, self.signature)
        if saved:
            self.history = list(saved.history)
            self.modules.load_state_dict(select_prefix("modules", saved.tensors))
        phases = self.objective.phases(self.config.epochs)
        next_save = time.monotonic() + self.config.checkpoint_seconds
        for number, phase in enumerate(phases):
            if saved and number < saved.phase:
                continue
            optimizer = make_adam(
                (p for module in phase.modules for p in module.parameters()),
                self.settings.lr,
                weight_decay=self.settings.weight_decay,
                coupled_decay=self.settings.coupled_decay,
                schedule=self.settings.schedule,
            )
            begin = 0
            if saved and number == saved.phase:
                begin = saved.epoch
                load_adam_state(optimizer, select_prefix("optimizer", saved.tensors))
            if begin == phase.epochs:
                continue
            # Modules that this phase does not train run without dropout, as they will after training.
            set_dropout_generator(self.modules, None)
            step = self._make_step(phase, optimizer)
            for epoch in range(begin, phase.epochs):
                yield from self._epoch(number, epoch, step, report)
                ended = number + 1 == len(phases) and epoch + 1 == phase.epochs
                if self.checkpoint and (ended or time.monotonic() >= next_save):
                    next_save = self._save(self.checkpoint, number, epoch + 1, optimizer)

    def _save(self, folder: Path, phase: int, epoch: int, optimizer: Adam) -> float:
        """Write a checkpoint and return the time from which the next one is due."""
        begin = time.monotonic()
        tensors = add_prefix("modules", self.modules.state_dict()) | add_prefix("optimizer", adam_state(optimizer))
        Checkpoint(phase, epoch, self.history, self.signature, tensors).save(folder)
        end = time.monotonic()
        wanted, least = self.config.checkpoint_seconds, (end - begin) * (1 + self.others) / MAX_SAVING_SHARE
        return end + (max(wanted, least) if wanted else 0.0)

    def _make_step(self, phase: Phase, optimizer: Adam) -> TrainingStep | StackSlot:
        if self.stack is not None:
            return self.stack.add(phase, self.objective, optimizer)
        return TrainingStep(
            self.windows,
            self.manifest.conditions,
            phase,
            optimizer,
            batch_size=self.batch_size,
            config=self.settings,
            references=self.references,
            prepared=self.prepared,
        )

    def _epoch(
        self, number: int, epoch: int, step: TrainingStep | StackSlot, report: ProgressCallback | None
    ) -> Iterator[None]:
        """Train once on the windows in random order; an incomplete last batch is left out."""
        windows, size, phase = self.windows, self.batch_size, step.phase
        seed = int(np.random.SeedSequence([self.manifest.seed, number, epoch]).generate_state(1, np.uint64)[0] >> 1)
        order = torch.randperm(len(windows), generator=torch.Generator().manual_seed(seed)).to(windows.device)
        step.begin_epoch(seed)
        steps = len(windows) // size
        for done in range(steps):
            step(order[done * size : (done + 1) * size], (epoch * steps + done) / (phase.epochs * steps))
            if report and done + 1 < steps:
                report(Progress(phase.name, epoch, phase.epochs, done + 1, steps, None))
            yield
        figures = step.statistics()
        if not math.isfinite(figures["loss"]):
            raise TrainingDivergedError(
                f"{self.manifest.objective} training diverged in epoch {epoch + 1} of {phase.epochs}: "
                f"loss {figures['loss']}; lower the learning rate (now {self.settings.lr:g}) or clip the gradient "
                f"(max_gradient_norm, now {self.settings.max_gradient_norm}). "
                + (f"The last good checkpoint is in {self.checkpoint}." if self.checkpoint else "")
            )
        discriminator = self.objective.condition_discriminator
        if discriminator is not None:
            figures |= epoch_deviation(self.network, discriminator, windows, self.manifest.window)
        row: Row = {"phase": phase.name, "epoch": epoch + 1, **figures}
        self.history.append(row)
        if report:
            report(Progress(phase.name, epoch, phase.epochs, steps, steps, row))


def _check(windows: Windows, manifest: Manifest) -> None:
    if "condition" in OBJECTIVES[manifest.objective].needs and windows.conditions is None:
        raise DataError(f"objective {manifest.objective!r} needs the condition of every window, and these have none")
    if windows.conditions is not None and windows.conditions.shape[1] != len(manifest.conditions):
        raise DataError(
            f"windows have {windows.conditions.shape[1]} conditions; the manifest says {len(manifest.conditions)}"
        )
    if windows.channels != manifest.channels:
        raise DataError(f"windows have channels {windows.channels}; the manifest says {manifest.channels}")
    counts = torch.bincount(windows.labels, minlength=len(manifest.classes)).tolist()
    empty = [name for name, count in zip(manifest.classes, counts, strict=True) if count == 0]
    if empty:
        raise DataError(f"no training window of class {', '.join(empty)}; every class needs a recording")


def _release_from_stack(modules: nn.Module) -> None:
    """Copy parameters and buffers that are views of a stack into their own memory, so that the stack can be freed."""
    for tensor in (*modules.parameters(), *modules.buffers()):
        tensor.data = tensor.detach().clone()
