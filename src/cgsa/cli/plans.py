"""What the commands that carry out plans share: their options, their engine and their progress bars."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cgsa.cli.console import progress_bar

if TYPE_CHECKING:
    from cgsa.bench.executors import JobExecutor
    from cgsa.bench.plan import StreamRun
    from cgsa.bench.records import RunRecord
    from cgsa.bench.run import PlanProgress
    from cgsa.bench.site import Site


class EngineName(StrEnum):
    """Who does the jobs."""

    PROCESSES = "processes"
    RAY = "ray"


Folder = Annotated[
    Path, typer.Argument(help="Where models and rows go; a stopped run goes on from there, and plans share models.")
]
Data = Annotated[
    Path | None,
    typer.Option(help="Folder with recordings, such as MCC5-THU's; without it the rigs are simulated."),
]
EngineOption = Annotated[EngineName, typer.Option("--engine", help="Worker processes here, or a Ray cluster.")]
Address = Annotated[str | None, typer.Option(help="Address of a running Ray cluster; without it one is started here.")]
Workers = Annotated[int, typer.Option(help="Jobs at once; 0 means one a core.", min=0)]
Threads = Annotated[int, typer.Option(help="Threads a job; the bits of a result depend on it.", min=1)]
Together = Annotated[
    int, typer.Option(help="Source models trained beside each other; 0 means all of a kind on a GPU, else one.", min=0)
]
Tf32 = Annotated[bool, typer.Option("--tf32", help="Let a GPU multiply matrices in TF32.")]

TOGETHER_ON_A_GPU = 16
"""Trainings that share a GPU; beyond ten or so it is full, and more streams would share scratch memory."""


def together_on(device: str, wanted: int) -> int:
    """Return how many models to train beside each other."""
    return wanted or (TOGETHER_ON_A_GPU if device != "cpu" else 1)


def make_engine(name: EngineName, site: Site, workers: int, address: str | None) -> JobExecutor:
    """Return who does the jobs of a site."""
    from cgsa.bench.executors import ProcessExecutor, RayExecutor

    cores, gpu = workers or os.cpu_count() or 1, site.device != "cpu"
    if name is EngineName.RAY:
        return RayExecutor(address, site.threads, workers=cores, gpu=gpu)
    return ProcessExecutor(cores, gpu=gpu)


def run_plan(site: Site, engine: JobExecutor, only: Callable[[StreamRun], bool] | None = None) -> list[RunRecord]:
    """Carry out a plan and show how far it is."""
    from cgsa.bench.run import run

    with progress_bar() as bar:
        models = bar.add_task("source models", total=None, note="")
        streams = bar.add_task("streams", total=None, note="")

        def hear(now: PlanProgress) -> None:
            bar.update(models, completed=now.trained, total=now.trainings)
            bar.update(streams, completed=now.met, total=now.meetings, note=now.note)

        return run(site, engine=engine, only=only, hear=hear)
