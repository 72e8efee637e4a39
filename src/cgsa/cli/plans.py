"""Options, executor and progress bars shared by the commands that run plans."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cgsa.cli.console import progress_bar

if TYPE_CHECKING:
    from cgsa.bench.plan import Plan, StreamRun
    from cgsa.bench.records import RunRecord
    from cgsa.bench.run import PlanProgress
    from cgsa.bench.workspace import PlanWorkspace


class ExecutorName(StrEnum):
    """Executors of jobs."""

    PROCESSES = "processes"
    RAY = "ray"


Folder = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER",
        help="Folder for models and results; an interrupted run resumes from it, and plans share its models.",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        help="Folder with recordings, such as MCC5-THU's, or the data set of a machine; without it, the rigs are "
        "simulated."
    ),
]
ExecutorOption = Annotated[
    ExecutorName, typer.Option("--engine", help="Worker processes on this machine, or a Ray cluster.")
]
Address = Annotated[
    str | None, typer.Option(help="Address of a running Ray cluster; without it, one is started on this machine.")
]
Workers = Annotated[int, typer.Option(help="Parallel jobs; 0 means one per core.", min=0)]
Threads = Annotated[int, typer.Option(help="Threads per job; results depend on it bit by bit.", min=1)]
Together = Annotated[
    int,
    typer.Option(help="Source models trained in parallel in one process; 0 means up to 16 on a GPU, else one.", min=0),
]
Tf32 = Annotated[bool, typer.Option("--tf32", help="Let a GPU multiply matrices in TF32.")]

GPU_TRAININGS_AT_ONCE = 16
"""Trainings that share a GPU; about ten fill it, and more streams would share scratch memory."""


def chosen_plan(name: str, data: Path | None, folder: Path, trials: int | None) -> Plan:
    """Load a plan; if ``data`` is the data set of a machine, its methods run on that machine."""
    from cgsa.bench.data_set_plan import plan_on_data_set
    from cgsa.bench.plan import Plan
    from cgsa.data.dataset_file import is_data_set

    plan = Plan.load(name)
    if data is not None and is_data_set(data):
        plan = plan_on_data_set(plan, data, folder)
    return plan if trials is None else replace(plan, trials=trials)


def trainings_at_once(device: str, wanted: int) -> int:
    """Return how many models to train in parallel."""
    return wanted or (GPU_TRAININGS_AT_ONCE if device != "cpu" else 1)


def run_with_progress_bar(
    workspace: PlanWorkspace,
    executor: ExecutorName,
    workers: int,
    address: str | None,
    only: Callable[[StreamRun], bool] | None = None,
    *,
    groups: int = 1,
) -> list[RunRecord]:
    """Run a plan with a progress bar; ``groups`` is how many processes train on a GPU at the same time."""
    from cgsa.bench.executors import ProcessExecutor, RayExecutor
    from cgsa.bench.run import run_plan

    cores, gpu = workers or os.cpu_count() or 1, workspace.device != "cpu"
    on_ray = executor is ExecutorName.RAY
    jobs = RayExecutor(address, workspace.threads, cores, gpu) if on_ray else ProcessExecutor(cores, gpu, groups)
    with progress_bar() as bar:
        models = bar.add_task("source models", total=None, note="")
        streams = bar.add_task("streams", total=None, note="")

        def show(now: PlanProgress) -> None:
            bar.update(models, completed=now.trained, total=now.trainings)
            bar.update(streams, completed=now.finished_runs, total=now.stream_runs, note=now.note)

        return run_plan(workspace, executor=jobs, only=only, on_progress=show)
