"""Running a rotation, resumable at any point: every finished training and its streams are one file."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from cgsa.bench.executors import JobExecutor
from cgsa.bench.jobs import simulate_job
from cgsa.bench.records import Row
from cgsa.bench.rotation.folds import VARIANTS, RotationFold, rotation_folds
from cgsa.bench.rotation.learners import BundleLearner, Learner, fitting_profile, profile_learner
from cgsa.bench.rotation.peer_learner import PeerLearner
from cgsa.bench.rotation.peers import PEERS
from cgsa.bench.rotation.rows import fold_rows
from cgsa.bench.rotation.sets import SIMULATED_SPECIMENS, RotationSet
from cgsa.bench.workspace import require_same_settings
from cgsa.config import as_table
from cgsa.data.library import open_library
from cgsa.errors import CgsaError, ConfigError
from cgsa.files import replacing
from cgsa.profile import Profile
from cgsa.rigs.simulation import SimulationJob, scenario_jobs
from cgsa.workflow import ENSEMBLE

PAPER = "CGSA"
"""Learner and entry of the paper's method: CAL and CGSA, in a training that ends within minutes."""
PAPER_PROFILE = "quick"


@dataclass(frozen=True)
class Rotation:
    """What to compare, and where the results are.

    ``folder`` gets one subfolder ``records`` with a file per job, and ``rows`` with a CSV file per set.
    """

    folder: Path
    profile: str = "recommended"
    """Name or path of the profile of our model."""
    peers: tuple[str, ...] = tuple(PEERS)
    paper: bool = False
    """Whether the paper's method is compared, too; it is slow."""
    seeds: int = 3
    variants: tuple[str, ...] = VARIANTS
    device: str = "cpu"
    threads: int = 1
    known_conditions: bool = False
    """Whether our model runs a second time with the operating conditions of every window."""

    @property
    def learners(self) -> tuple[str, ...]:
        """Names of everything that is trained on each fold, our model first."""
        return (Path(self.profile).stem, *([PAPER] if self.paper else []), *self.peers)

    def learner(self, name: str, rotated: RotationSet) -> Learner:
        """Return a learner, with windows that fit the recordings of a set."""
        own = self._fitting(self.profile, rotated)
        if name == PAPER:
            profile = self._fitting(PAPER_PROFILE, rotated)
            return BundleLearner(PAPER, profile, {PAPER: "cgsa"}, objective="cal", device=self.device)
        if name in self.peers:
            return PeerLearner(PEERS[name], own, self.threads)
        return profile_learner(name, own, self.device, known_conditions=self.known_conditions)

    def depends_on_seed(self, name: str) -> bool:
        """Return whether another seed gives another model."""
        if name in self.peers:
            return PEERS[name].depends_on_seed
        return name == PAPER or Profile.load(self.profile).default_objective != ENSEMBLE

    def check_settings(self) -> None:
        """Refuse a folder with results of other settings; sets, seeds, peers and variants may be added."""
        require_same_settings(
            self.folder / "rotation.json",
            {
                "profile": as_table(Profile.load(self.profile)),
                "device": self.device,
                "threads": self.threads,
                "known_conditions": self.known_conditions,
            },
        )

    def _fitting(self, profile: str, rotated: RotationSet) -> Profile:
        return fitting_profile(Profile.load(profile), rotated.shortest, rotated.scenario.sample_rate)


@dataclass(frozen=True)
class RotationJob:
    """One learner on one fold, with one seed."""

    rotated: RotationSet
    fold: RotationFold
    learner: str
    seed: int

    @property
    def key(self) -> str:
        """Unique name of the job, usable as a file name."""
        learner = "".join(letter if letter.isalnum() else "_" for letter in self.learner)
        return f"{self.fold.key}-{learner}-{self.seed}"

    def path(self, rotation: Rotation) -> Path:
        """Return the file of the result."""
        return rotation.folder / "records" / self.rotated.name / f"{self.key}.json"


@dataclass(frozen=True)
class RotationProgress:
    """Progress of a rotation."""

    finished: int
    jobs: int
    note: str = ""
    """The job that ended last."""


def rotation_jobs(rotation: Rotation, sets: Sequence[RotationSet]) -> list[RotationJob]:
    """Return every job, seed by seed, so that an interrupted rotation has every fold of the first seeds."""
    folds = [(rotated, fold) for rotated in sets for fold in rotation_folds(rotated, rotation.variants)]
    depends_on_seed = {name: rotation.depends_on_seed(name) for name in rotation.learners}
    return [
        RotationJob(rotated, fold, name, seed)
        for seed in range(rotation.seeds)
        for rotated, fold in folds
        for name in rotation.learners
        if seed == 0 or depends_on_seed[name]
    ]


def run_rotation(
    rotation: Rotation,
    sets: Sequence[RotationSet],
    executor: JobExecutor,
    on_progress: Callable[[RotationProgress], None] | None = None,
) -> dict[str, list[Row]]:
    """Run what is left of a rotation, and return all rows of every set."""
    rotation.check_settings()
    report = on_progress or (lambda _: None)
    jobs = rotation_jobs(rotation, sets)
    open_jobs = [job for job in jobs if not _finished(job, rotation)]
    progress = RotationProgress(len(jobs) - len(open_jobs), len(jobs))
    report(progress)
    with executor:
        simulations = _open_simulations(job.rotated for job in open_jobs)
        for key in executor.run_jobs(simulate_job, simulations, whole_device=False):
            report(replace(progress, note=f"simulated {key}" if key else ""))
        for key in executor.run_jobs(partial(rotation_job, rotation), open_jobs, whole_device=False):
            if key:
                progress = replace(progress, finished=progress.finished + 1, note=key)
            report(progress)
    return collect_rotation(rotation, sets)


def rotation_job(rotation: Rotation, job: RotationJob) -> str:
    """Train on one fold, run its streams, and save the rows."""
    torch.set_num_threads(rotation.threads)
    library = open_library(job.rotated.folder, job.fold.scenario, train_on=job.fold.train_on)
    rows = [row for row in _rows(job, rotation) if row["variant"] not in rotation.variants]
    try:
        rows += fold_rows(job.fold, rotation.learner(job.learner, job.rotated), library, job.seed)
    except CgsaError as error:
        raise type(error)(f"{job.rotated.name} without {job.fold.left_out}, {job.learner}: {error}") from error
    with replacing(job.path(rotation), ConfigError) as fresh:
        fresh.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return job.key


def collect_rotation(rotation: Rotation, sets: Sequence[RotationSet]) -> dict[str, list[Row]]:
    """Read the rows of all finished jobs, write them as one CSV per set, and return them by set."""
    found: dict[str, list[Row]] = {rotated.name: [] for rotated in sets}
    for job in rotation_jobs(rotation, sets):
        found[job.rotated.name] += [row for row in _rows(job, rotation) if row["variant"] in rotation.variants]
    for name, rows in found.items():
        path = rotation.folder / "rows" / f"{name}.csv"
        with replacing(path, ConfigError) as fresh, fresh.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(column for row in rows for column in row)))
            writer.writeheader()
            writer.writerows(rows)
    return found


def _rows(job: RotationJob, rotation: Rotation) -> list[Row]:
    """Return the rows of a job; none if it has not ended."""
    path = job.path(rotation)
    if not path.exists():
        return []
    try:
        rows: list[Row] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not a record of a rotation ({error}); remove it to run the fold again") from error
    return rows


def _finished(job: RotationJob, rotation: Rotation) -> bool:
    """Return whether a job has ended with all the streams that are asked for now."""
    wanted = {(stream.condition, stream.variant, stream.specimen) for stream in job.fold.streams}
    return wanted <= {(row["condition"], row["variant"], row["specimen"]) for row in _rows(job, rotation)}


def _open_simulations(sets: Iterable[RotationSet]) -> list[SimulationJob]:
    """Return the runs of the rigs that are still to be simulated."""
    rigs = {rotated.name: rotated for rotated in sets if rotated.simulated}
    jobs = [job for one in rigs.values() for job in scenario_jobs(one.scenario, one.folder, SIMULATED_SPECIMENS)]
    return [job for job in jobs if not job.path.exists()]
