"""Training source models: one or several on the same windows, each with its own seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from cgsa.data.windows import Windows
from cgsa.engines.graph import interleave
from cgsa.nn.bundle import Manifest, ModelBundle
from cgsa.nn.frontends import RawFrontend
from cgsa.offline.config import TrainConfig
from cgsa.offline.run import ProgressCallback, TrainingRun
from cgsa.offline.stacked import StackedTraining, can_stack

PREPARED_BATCH = 4096
"""Windows that go through the front-end at once."""
MAX_PREPARED_BYTES = 2**31
"""Features kept during training take no more than this."""
STACKED_ON = ("cuda",)
"""Devices on which models are stacked; a CPU is busy with one, and keeps the bits of autograd."""


def train_models(
    windows: Windows,
    manifests: Sequence[Manifest],
    config: TrainConfig,
    *,
    objective_settings: Mapping[str, object] | None = None,
    device: torch.device | str = "cpu",
    checkpoints: Sequence[Path | None] | None = None,
    report: ProgressCallback | None = None,
) -> list[ModelBundle]:
    """Train the models that ``manifests`` describe on labelled windows.

    The steps of several models are taken in turn. On a GPU they run at the same
    time, which is far faster than one model after the other; models that can be
    stacked (:mod:`cgsa.offline.stacked`) then differ in rounding from models
    trained alone. Otherwise the results are bit-identical.

    Parameters
    ----------
    objective_settings
        Settings that differ from the defaults of the objective.
    checkpoints
        Folder per model for checkpoints; training resumes from a checkpoint that exists.
    report
        Called after every step of the first model.
    """
    device = torch.device(device)
    data = _fingerprint(windows)
    runs = [
        TrainingRun.start(
            windows,
            manifest,
            config,
            data=data,
            objective_settings=objective_settings or {},
            device=device,
            checkpoint=folder,
            others=len(manifests) - 1,
        )
        for manifest, folder in zip(manifests, checkpoints or [None] * len(manifests), strict=True)
    ]
    prepared, stack = _prepare(windows, runs[0]), _make_stack(runs[0])
    for run in runs:
        run.prepared, run.stack = prepared, stack
    # A stack takes the steps of all runs on one stream.
    tasks = [run.steps(None if number else report) for number, run in enumerate(runs)]
    interleave(tasks, device, own_streams=stack is None)
    return [run.finish() for run in runs]


def _make_stack(run: TrainingRun) -> StackedTraining | None:
    """Return a stack that takes the steps of all runs together; None if each run has to take its own."""
    if run.windows.device.type not in STACKED_ON or not can_stack(run.objective, run.network):
        return None
    return StackedTraining(run.windows, run.manifest.conditions, run.settings, run.batch_size)


def _fingerprint(windows: Windows) -> dict[str, object]:
    """Return numbers that change when the training data change."""
    return {
        "windows": len(windows),
        "samples": windows.samples.shape[1],
        "sums": windows.samples.double().abs().sum(dim=1).cpu().tolist(),
        "classes": torch.bincount(windows.labels).cpu().tolist(),
    }


@torch.no_grad()
def _prepare(windows: Windows, run: TrainingRun) -> Tensor | None:
    """Return the front-end's output for all windows, if keeping it saves time and it fits into memory.

    The front-end does not learn during training and is the same in every model. For raw samples there is nothing to
    save: overlapping windows share them.
    """
    frontend = run.network.frontend
    raw = isinstance(frontend, RawFrontend) or "raw" in run.objective.needs or run.config.views == "every"
    if raw or 4 * len(windows) * frontend.out_features > MAX_PREPARED_BYTES:
        return None
    return torch.cat([frontend(x) for _, x in windows.batches(PREPARED_BATCH)])
