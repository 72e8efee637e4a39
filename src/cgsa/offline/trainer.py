"""Training a source model with one objective.

All randomness of an epoch comes from (seed, phase, epoch), so a training that
was stopped goes on from its last whole epoch with the same bits as one that
was not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Adam

from cgsa.config import as_table, bind
from cgsa.data.windows import Windows
from cgsa.engines.graph import interleave
from cgsa.errors import ConfigError, DataError, TrainingDivergedError
from cgsa.nn.bundle import Manifest, ModelBundle
from cgsa.nn.condition import DiscriminatorConfig
from cgsa.nn.dropout import draw_from
from cgsa.nn.frontends import RawFrontend
from cgsa.nn.mlp import DiagnosisNet, build_seeded
from cgsa.nn.optim import adam_state, load_adam_state, make_adam
from cgsa.nn.state import put_under, take_under
from cgsa.offline import OBJECTIVES
from cgsa.offline.base import Objective, ObjectiveConfig, Phase
from cgsa.offline.checkpoint import Checkpoint
from cgsa.offline.references import References
from cgsa.offline.stacked import StackedTraining, StackSlot, can_stack
from cgsa.offline.step import TrainingStep

CHANCE_MARGIN = 0.1
"""A final training accuracy this close to guessing is reported as a training that learnt nothing."""

MAX_SAVING_SHARE = 0.05
"""Checkpoints take at most about this share of the time, however slow the disk is."""
SOME_WINDOWS = 4096
"""Training windows, evenly spread, by which a finished model is judged."""
MOST_PREPARED_BYTES = 2**31
"""Features that are kept over a training take no more than this."""
STACKED_ON = ("cuda",)
"""Devices on which models are stacked; a CPU is busy with one, and keeps the bits of autograd."""
DEAD_RESPONSE = 1e-3
"""A response that deviates less than this over the training windows says nothing; the paper's threshold is 0.05."""


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
    reference_seconds: float = 0.5
    """How long the healthy spans are whose references a network with a reference is trained against."""
    calibrate: bool = False
    """Whether models are judged at conditions left out of their training (:mod:`cgsa.offline.held_out`)."""
    checkpoint_seconds: float = 30.0
    """At least this long between two checkpoints, and longer where saving is slow; 0 saves after every epoch."""

    def __post_init__(self) -> None:
        if min(self.epochs, self.step) < 1 or self.batch_size < 2:
            raise ConfigError(
                f"{self.epochs} epochs, batches of {self.batch_size}, step {self.step}; expected at least one epoch, "
                f"two windows a batch and a step of one"
            )
        if self.reference_seconds <= 0:
            raise ConfigError(f"reference_seconds {self.reference_seconds:g}; expected a positive number")


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
    bundles = train_together(
        windows,
        [manifest],
        config,
        objective_settings=objective_settings,
        device=device,
        checkpoints=[checkpoint],
        report=report,
    )
    return bundles[0]


def train_together(
    windows: Windows,
    manifests: Sequence[Manifest],
    config: TrainConfig,
    *,
    objective_settings: Mapping[str, object] | None = None,
    device: torch.device | str = "cpu",
    checkpoints: Sequence[Path | None] | None = None,
    report: Report | None = None,
) -> list[ModelBundle]:
    """Train several models on the same windows, step by step in turn; each as :func:`train_source` would.

    On a GPU their steps run at the same time, which takes far less time than one
    after the other; where they can be stacked (:mod:`cgsa.offline.stacked`), they
    differ in rounding from models trained alone. ``report`` hears of the first.
    """
    folders = checkpoints or [None] * len(manifests)
    data = _fingerprint(windows)
    runs = [
        _Run.start(
            windows,
            manifest,
            config,
            data=data,
            objective_settings=objective_settings or {},
            device=torch.device(device),
            checkpoint=folder,
            beside=len(manifests) - 1,
        )
        for manifest, folder in zip(manifests, folders, strict=True)
    ]
    prepared = _prepare(windows, runs[0])
    room = _room(runs)
    for run in runs:
        run.prepared, run.room = prepared, room
    hears = [report or _silence, *[_silence] * (len(runs) - 1)]
    walks = [run.walk(hearer) for run, hearer in zip(runs, hears, strict=True)]
    # Steps that are taken together are taken on one stream.
    interleave(walks, torch.device(device), own_streams=room is None)
    return [run.finish() for run in runs]


@dataclass
class _Run:
    """One training: its data, modules and where its checkpoints go."""

    windows: Windows
    manifest: Manifest
    config: TrainConfig
    settings: ObjectiveConfig
    modules: nn.ModuleDict
    signature: Mapping[str, object]
    checkpoint: Path | None
    beside: int
    """Trainings that wait while this one saves."""
    references: References | None = None
    prepared: Tensor | None = None
    room: StackedTraining | None = None
    """Where it takes its steps together with others."""
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
        beside: int,
    ) -> _Run:
        """Check the data and build the modules from the seed."""
        _check(windows, manifest)
        objective_type = OBJECTIVES[manifest.objective]
        settings = bind(objective_type.Config, objective_settings, f"objective {manifest.objective}")

        def build() -> nn.ModuleDict:
            network = DiagnosisNet(
                manifest.network, len(manifest.channels), manifest.window.length, len(manifest.classes)
            )
            parts = int(windows.parts.max()) + 1
            objective = objective_type(
                settings,
                network,
                parts=parts,
                conditions=len(manifest.conditions),
                discriminator=config.discriminator,
            )
            return nn.ModuleDict({"network": network, "objective": objective})

        signature = {
            "model": as_table(manifest),
            "training": as_table(config),
            "objective": as_table(settings),
            "data": data,
            "device": device.type,
        }
        modules = build_seeded(manifest.seed, build).to(device)
        run = cls(windows, manifest, config, settings, modules, signature, checkpoint, beside)
        run.network.frontend.fit(windows.samples, windows.gather(_spread(windows)))
        if run.network.reference is not None:
            generator = torch.Generator().manual_seed(manifest.seed)
            run.references = References(windows, run.network, seconds=config.reference_seconds, generator=generator)
            run.network.reference.copy_(run.references.mean)
        return run

    @property
    def network(self) -> DiagnosisNet:
        """The network that is trained."""
        return cast(DiagnosisNet, self.modules["network"])

    @property
    def objective(self) -> Objective:
        """What it is trained for."""
        return cast(Objective, self.modules["objective"])

    @property
    def batch_size(self) -> int:
        """Windows a step; all of them where there are fewer than a batch."""
        return min(self.config.batch_size, len(self.windows))

    @torch.no_grad()
    def finish(self) -> ModelBundle:
        """Return the trained model with what there is to know of its training."""
        self.modules.eval().requires_grad_(requires_grad=False)
        draw_from(self.modules, None)
        if self.room is not None:
            _take_out(self.modules)
        discriminator = self.objective.condition_discriminator
        features = self.network.features(self.windows.gather(_spread(self.windows)))
        confidence = torch.softmax(self.network.classify(features), dim=1).amax(dim=1)
        notes = [*self.manifest.notes, *_judge(self.history, self.manifest)]
        usual_responses = None
        if discriminator is not None:
            response = discriminator.response(features)
            notes += _judge_response(response, self.manifest)
            bounds = torch.quantile(response, torch.tensor([0.005, 0.995]).to(response), dim=0)
            usual_responses = tuple((low, high) for low, high in bounds.T.tolist())
        finished = replace(
            self.manifest,
            discriminator=None if discriminator is None else self.config.discriminator,
            usual_confidence=float(torch.quantile(confidence, 0.05)),
            usual_responses=usual_responses,
            notes=tuple(notes),
        )
        training = {
            **self.signature,
            "history": self.history,
            "trained_on": self.windows.intervals,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "stacked": self.room is not None,
        }
        return ModelBundle(finished, self.network, discriminator, training=training)

    def walk(self, report: Report) -> Iterator[None]:
        """Go through all phases from the start or from the last checkpoint, one training step at a time."""
        saved = None if self.checkpoint is None else Checkpoint.load(self.checkpoint, self.signature)
        if saved:
            self.history = list(saved.history)
            self.modules.load_state_dict(take_under("modules", saved.tensors))
        phases = self.objective.phases(self.config.epochs)
        next_save = time.monotonic() + self.config.checkpoint_seconds
        for place, phase in enumerate(phases):
            if saved and place < saved.phase:
                continue
            optimizer = make_adam(
                (p for module in phase.modules for p in module.parameters()),
                self.settings.lr,
                weight_decay=self.settings.weight_decay,
                schedule=self.settings.schedule,
            )
            begin = 0
            if saved and place == saved.phase:
                begin = saved.epoch
                load_adam_state(optimizer, take_under("optimizer", saved.tensors))
            if begin == phase.epochs:
                continue
            # What this phase does not train works as it will be used.
            draw_from(self.modules, None)
            step = self._make_step(phase, optimizer)
            for epoch in range(begin, phase.epochs):
                yield from self._epoch(place, epoch, step, report)
                ended = place + 1 == len(phases) and epoch + 1 == phase.epochs
                if self.checkpoint and (ended or time.monotonic() >= next_save):
                    begun = time.monotonic()
                    tensors = put_under("modules", self.modules.state_dict())
                    tensors |= put_under("optimizer", adam_state(optimizer))
                    Checkpoint(place, epoch + 1, self.history, self.signature, tensors).save(self.checkpoint)
                    now = time.monotonic()
                    seldom = (now - begun) * (1 + self.beside) / MAX_SAVING_SHARE
                    wanted = self.config.checkpoint_seconds
                    next_save = now + (max(wanted, seldom) if wanted else 0.0)

    def _make_step(self, phase: Phase, optimizer: Adam) -> TrainingStep | StackSlot:
        if self.room is not None:
            return self.room.add(phase, self.objective, optimizer)
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

    def _epoch(self, place: int, epoch: int, step: TrainingStep | StackSlot, report: Report) -> Iterator[None]:
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
            yield
        figures = step.statistics()
        if not math.isfinite(figures["loss"]):
            raise TrainingDivergedError(
                f"{self.manifest.objective} training diverged in epoch {epoch + 1} of {phase.epochs}: "
                f"loss {figures['loss']}; lower the learning rate (now {self.settings.lr:g}) or clip the gradient "
                f"(max_gradient_norm, now {self.settings.max_gradient_norm}). "
                + (f"The last good checkpoint is in {self.checkpoint}." if self.checkpoint else "")
            )
        row: Row = {"phase": phase.name, "epoch": epoch + 1, **figures}
        self.history.append(row)
        report(Progress(phase.name, epoch, phase.epochs, steps, steps, row))


def _room(runs: Sequence[_Run]) -> StackedTraining | None:
    """Return where trainings take their steps together; none where each has to take its own."""
    first = runs[0]
    if first.windows.device.type not in STACKED_ON or not can_stack(first.objective, first.network):
        return None
    return StackedTraining(first.windows, first.manifest.conditions, first.settings, first.batch_size)


def _take_out(modules: nn.Module) -> None:
    """Give parameters and buffers that are views of a stack memory of their own, so that the stack can go."""
    for tensor in (*modules.parameters(), *modules.buffers()):
        tensor.data = tensor.detach().clone()


def _silence(_progress: Progress) -> None:
    """Hear nothing."""


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


def _fingerprint(windows: Windows) -> dict[str, object]:
    """Return numbers that change when the training data change."""
    return {
        "windows": len(windows),
        "samples": windows.samples.shape[1],
        "sums": windows.samples.double().abs().sum(dim=1).cpu().tolist(),
        "classes": torch.bincount(windows.labels).cpu().tolist(),
    }


@torch.no_grad()
def _prepare(windows: Windows, run: _Run) -> Tensor | None:
    """Put all windows through the front-end once, where an epoch would do it again and the result fits.

    It learns nothing in training, and on the same windows every model has the same. Of raw samples there would be
    nothing to gain: overlapping windows share them.
    """
    frontend = run.network.frontend
    raw = isinstance(frontend, RawFrontend) or "raw" in run.objective.needs
    if raw or 4 * len(windows) * frontend.out_features > MOST_PREPARED_BYTES:
        return None
    return torch.cat([frontend(x) for _, x in windows.batches(SOME_WINDOWS)])


def _spread(windows: Windows) -> Tensor:
    """Return the places of some windows, evenly spread over all."""
    return torch.linspace(0, len(windows) - 1, min(len(windows), SOME_WINDOWS), device=windows.device).long()


def _judge_response(response: Tensor, manifest: Manifest) -> tuple[str, ...]:
    """Say in words when the discriminator has died: it then tells nothing, and rejects no window."""
    told = []
    for condition, spread in zip(manifest.conditions, response.std(dim=0).tolist(), strict=True):
        if spread < DEAD_RESPONSE:
            to, by = (f" to {condition.name}", " by it") if len(manifest.conditions) > 1 else ("", "")
            told.append(
                f"the discriminator is dead: over the training windows its response{to} deviates by {spread:.1g}, so "
                f"residual condition guidance will reject nothing{by}; try another seed or a lower learning rate"
            )
    return tuple(told)


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
