"""Running a plan, resumable at any point.

Every finished job is one file or folder in the workspace, written atomically: a bundle per training job, a record per
stream run. Finished jobs are not run again; a killed job leaves nothing behind.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from cgsa.bench.executors import JobExecutor, ProcessExecutor
from cgsa.bench.jobs import PROGRESS_FILE, simulate_job, stream_job, train_job
from cgsa.bench.plan import StreamRun, TrainingJob, training_jobs
from cgsa.bench.records import RunRecord, grouped
from cgsa.bench.workspace import PlanWorkspace
from cgsa.data.scenario import Scenario
from cgsa.errors import ConfigError
from cgsa.files import replacing
from cgsa.nn.bundle import MANIFEST
from cgsa.rigs.simulation import SimulationJob, scenario_jobs


@dataclass(frozen=True)
class PlanProgress:
    """Progress of a plan."""

    trained: float
    """Source models trained; unfinished ones count as fractions."""
    trainings: int
    finished_runs: int
    stream_runs: int
    note: str = ""
    """The job that finished last."""


def run_plan(
    workspace: PlanWorkspace,
    *,
    executor: JobExecutor | None = None,
    only: Callable[[StreamRun], bool] | None = None,
    on_progress: Callable[[PlanProgress], None] | None = None,
) -> list[RunRecord]:
    """Run a plan, or what is left of it, and return all its records.

    The default executor is one process; ``only`` selects the stream runs to do now. ``on_progress`` is called whenever
    a job ends and about every second in between.
    """
    workspace.check_settings()
    executor = executor or ProcessExecutor(gpu=workspace.device != "cpu")
    wanted = [run for run in workspace.plan.stream_runs() if only is None or only(run)]
    open_runs = _without_diverged(workspace, [run for run in wanted if not workspace.record_path(run).exists()])
    trainings = [job for job in training_jobs(open_runs) if not (workspace.model_folder(job) / MANIFEST).exists()]
    total = len(training_jobs(wanted))
    progress = PlanProgress(total - len(trainings), total, len(wanted) - len(open_runs), len(wanted))
    report = on_progress or (lambda _: None)
    report(progress)
    with executor:
        simulations = _open_simulations(workspace, (run.scenario for run in open_runs))
        for key in executor.run_jobs(simulate_job, simulations, whole_device=False):
            report(replace(progress, note=f"simulated {key}" if key else ""))
        groups = _group_trainings(trainings, workspace.trainings_at_once)
        trained, note = progress.trained, ""
        for key in executor.run_jobs(partial(train_job, workspace), groups, whole_device=True):
            note = key or note
            report(replace(progress, trained=trained + _finished_trainings(workspace, trainings), note=note))
        progress = replace(progress, trained=total, note=note)
        open_runs = _without_diverged(workspace, open_runs)
        for key in executor.run_jobs(partial(stream_job, workspace), open_runs, whole_device=False):
            if key:
                progress = replace(progress, finished_runs=progress.finished_runs + 1, note=key)
            report(progress)
    return collect_records(workspace)


def collect_records(workspace: PlanWorkspace) -> list[RunRecord]:
    """Read the records of all finished stream runs, in the order of the plan, and write their rows as one CSV."""
    paths = map(workspace.record_path, workspace.plan.stream_runs())
    records = [RunRecord.load(path) for path in paths if path.exists()]
    rows = [row for record in records for row in record.rows]
    with replacing(workspace.results / "rows.csv", ConfigError) as fresh, fresh.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)
    return records


def _without_diverged(workspace: PlanWorkspace, runs: Sequence[StreamRun]) -> list[StreamRun]:
    return [run for run in runs if not workspace.divergence_note(run.training).exists()]


def _open_simulations(workspace: PlanWorkspace, scenarios: Iterable[str]) -> list[SimulationJob]:
    """Return the runs still to simulate; none if there are recordings."""
    if workspace.data is not None:
        return []
    specimens = workspace.plan.simulated_specimens
    loaded = [Scenario.load(name) for name in dict.fromkeys(scenarios)]
    jobs = [
        job
        for one in loaded
        for job in scenario_jobs(one, workspace.recordings_of(one), len(specimens), first=specimens.start)
    ]
    return [job for job in jobs if not job.path.exists()]


def _group_trainings(trainings: Sequence[TrainingJob], size: int) -> list[list[TrainingJob]]:
    """Return groups of at most ``size`` training jobs that differ only in the trial."""
    alike = grouped(trainings, lambda training: replace(training, trial=0))
    return [group[first : first + size] for group in alike.values() for first in range(0, len(group), size)]


def _finished_trainings(workspace: PlanWorkspace, trainings: Sequence[TrainingJob]) -> float:
    """Return the number of finished training jobs; running ones count as fractions."""
    done = 0.0
    for training in trainings:
        if (workspace.model_folder(training) / MANIFEST).exists():
            done += 1
        elif (path := workspace.checkpoint_folder(training) / PROGRESS_FILE).exists():
            # The file may be gone or incomplete by now; the next call reads a newer one.
            with suppress(OSError, ValueError):
                done += float(path.read_text(encoding="utf-8"))
    return done
