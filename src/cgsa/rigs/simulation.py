"""Write simulated runs to files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

from cgsa.data.mcc5.files import file_name
from cgsa.data.mcc5.writer import write_csv
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.run import Run, Severity
from cgsa.data.scenario import Scenario
from cgsa.rigs import RIGS

FileFormat = Literal["parquet", "csv"]


@dataclass(frozen=True)
class SimulationJob:
    """One run to simulate, and its file."""

    rig: str
    state: str
    run: Run
    severity: Severity
    specimen: int
    seed: int
    folder: Path
    file_format: FileFormat = "parquet"

    @property
    def path(self) -> Path:
        """The file, in a folder per specimen and named as in the data set."""
        name = file_name(self.rig, self.state, self.severity, self.run)
        return self.folder / f"specimen_{self.specimen}" / f"{name}.{self.file_format}"

    def execute(self) -> Path:
        """Simulate the run and write its file."""
        recording = RIGS[self.rig]().simulate(
            self.state, self.run, severity=self.severity, specimen=self.specimen, seed=self.seed
        )
        if self.file_format == "csv":
            write_csv(recording, self.path, machine=self.rig)
        else:
            write_parquet(recording, self.path)
        return self.path


def scenario_jobs(scenario: Scenario, folder: Path, specimens: int, *, first: int = 1) -> list[SimulationJob]:
    """Return a job for every run of a scenario, class and specimen; ``first`` is the number of the first specimen."""
    rig = scenario.require_rig()
    return [
        SimulationJob(rig, state, Run.parse(run), scenario.severity_of(state), specimen, 0, folder)
        for specimen in range(first, first + specimens)
        for state in scenario.classes
        for run in scenario.runs
    ]


def run_simulations(jobs: Sequence[SimulationJob], workers: int, done: Callable[[Path], None] | None = None) -> None:
    """Execute the jobs in ``workers`` processes; ``done`` is called with the path of every written file."""
    if not jobs:
        return
    # Spawned, since a forked process would inherit locks that threads of this one hold.
    with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(job.execute) for job in jobs]
        try:
            for finished in as_completed(futures):
                path = finished.result()
                if done:
                    done(path)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
