"""The jobs of a plan. Workers call them by name; each writes its result into the workspace and returns its key."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import torch

from cgsa.bench.plan import StreamRun, TrainingJob
from cgsa.bench.records import RunRecord
from cgsa.bench.stream_run import measure_stream_run
from cgsa.bench.workspace import PlanWorkspace
from cgsa.data.library import open_library
from cgsa.data.scenario import Scenario
from cgsa.data.windows import Windows, WindowSpec
from cgsa.errors import TrainingDivergedError
from cgsa.nn.bundle import ModelBundle
from cgsa.offline.checkpoint import remove_checkpoint
from cgsa.offline.portfolio import PortfolioConfig, choose_window
from cgsa.offline.run import Progress
from cgsa.online import METHODS
from cgsa.profile import Profile
from cgsa.rigs.simulation import SimulationJob
from cgsa.workflow import ENSEMBLE, FEATURE_OBJECTIVES, train

PROGRESS_FILE = "progress"
"""File in a checkpoint folder with the finished fraction of the training."""
PROGRESS_SECONDS = 1.0
"""Seconds between two updates of the progress file."""
CACHED_WINDOWS = 4
"""Streams and training sets that a worker keeps in memory, because consecutive jobs share them."""


def simulate_job(job: SimulationJob) -> str:
    """Simulate one recording."""
    return job.execute().name


def train_job(workspace: PlanWorkspace, trainings: Sequence[TrainingJob]) -> str:
    """Train and save source models that differ only in the trial."""
    _configure_torch(workspace)
    first = trainings[0]
    scenario, profile = Scenario.load(first.scenario), workspace.plan.profile_of(first.scenario, first.profile)
    checkpoints = [workspace.checkpoint_folder(training) for training in trainings]
    try:
        bundles = train(
            scenario,
            profile,
            _training_windows(workspace, first.scenario, profile, first.objective),
            objective=first.objective,
            seeds=[workspace.plan.job_seed(training) for training in trainings],
            checkpoints=checkpoints,
            report=_progress_writer(checkpoints),
        )
    except TrainingDivergedError as error:
        if not workspace.skip_diverged:
            raise
        for training in trainings:
            workspace.divergence_note(training).parent.mkdir(parents=True, exist_ok=True)
            workspace.divergence_note(training).write_text(f"{error}\n", encoding="utf-8")
        return first.key
    for training, bundle, checkpoint in zip(trainings, bundles, checkpoints, strict=True):
        bundle.save(workspace.model_folder(training))
        (checkpoint / PROGRESS_FILE).unlink(missing_ok=True)
        remove_checkpoint(checkpoint)
    return first.key


def stream_job(workspace: PlanWorkspace, run: StreamRun) -> str:
    """Run one method on one stream and save the record."""
    run_and_record(workspace, run).save(workspace.record_path(run))
    return run.key


def run_and_record(workspace: PlanWorkspace, run: StreamRun) -> RunRecord:
    """Return the record of one stream run; a repetition gives the same bits, except for measured times."""
    _configure_torch(workspace)
    profile = workspace.plan.profile_of(run.scenario, run.entry.profile)
    objective = run.entry.objective
    spec = profile.window
    if objective == ENSEMBLE:
        # Its windows depend on the recordings of its training.
        spec = ModelBundle.load(workspace.model_folder(run.training)).manifest.window
    windows = _windows(workspace, run.scenario, spec, objective, run.fault, device=run.entry.device)
    needs_source = "source_data" in METHODS[run.entry.method].needs
    source = _training_windows(workspace, run.scenario, profile, objective) if needs_source else None
    return measure_stream_run(workspace, run, windows, source)


def _configure_torch(workspace: PlanWorkspace) -> None:
    torch.set_num_threads(workspace.threads)
    torch.set_float32_matmul_precision("high" if workspace.tf32 else "highest")


def _progress_writer(checkpoints: Sequence[Path]) -> Callable[[Progress], None]:
    """Return a callback that writes the finished fraction of a training into its checkpoint folders."""
    last = 0.0

    def write(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last < PROGRESS_SECONDS:
            return
        last = time.monotonic()
        fraction = (progress.epoch + progress.step / progress.steps) / progress.epochs
        for folder in checkpoints:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / PROGRESS_FILE).write_text(f"{fraction:.4f}", encoding="utf-8")

    return write


def _training_windows(workspace: PlanWorkspace, scenario: str, profile: Profile, objective: str) -> Windows:
    spec = WindowSpec(profile.window.length, profile.train.step)
    chosen = profile.ensemble if objective == ENSEMBLE else spec
    return _windows(workspace, scenario, chosen, objective, None, assemblies=profile.train.assemblies)


def _windows(
    workspace: PlanWorkspace,
    scenario: str,
    spec: WindowSpec | PortfolioConfig,
    objective: str,
    fault: str | None,
    *,
    assemblies: int | None = None,
    device: str | None = None,
) -> Windows:
    """Return the windows of the stream with a fault; None means training windows, of at most some assemblies."""
    plan, recordings = workspace.plan, workspace.recordings_of(Scenario.load(scenario))
    train_on = plan.trained_specimens if workspace.data is None else None
    return _cached_windows(
        recordings,
        scenario,
        train_on,
        spec,
        centred=objective not in FEATURE_OBJECTIVES,
        device=device or workspace.device,
        fault=fault,
        assemblies=assemblies,
        watched=plan.watched,
    )


@lru_cache(maxsize=CACHED_WINDOWS)
def _cached_windows(
    folder: Path,
    name: str,
    train_on: range | None,
    spec: WindowSpec | PortfolioConfig,
    *,
    centred: bool,
    device: str,
    fault: str | None,
    assemblies: int | None,
    watched: int,
) -> Windows:
    scenario = Scenario.load(name)
    library = open_library(folder, scenario, train_on=train_on)
    if fault is None:
        segments = scenario.training_segments(library, assemblies)
    else:
        segments = scenario.stream_segments(library, fault, specimen=watched)
    if centred:
        segments = [segment.centred() for segment in segments]
    if isinstance(spec, PortfolioConfig):
        spec = choose_window(spec, scenario.sample_rate, min(segment.recording.samples for segment in segments))
    return Windows(segments, spec, conditions=scenario.condition_names, device=device)
