"""A plan: which methods run on which streams, how often, and from which source model.

A plan expands into two kinds of jobs: a *training job* trains one source model, and a *stream run* runs one method on
one stream. Every job has a unique key and a seed that depends only on the plan's seed and that key, so any job can run
alone, in any order and on any machine.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np

from cgsa.config import as_table, bind, builtin_files, overlay, read_named, toml_text
from cgsa.data.scenario import Scenario
from cgsa.errors import ConfigError
from cgsa.profile import Profile

SHARED_FOLDERS = ("data", "models", "scenarios", "training")
"""Subfolders that all plans in one folder share."""
RESERVED_NAMES = (*SHARED_FOLDERS, "rotate", "readings")
"""Names that no plan may have: a rotation and the readings have their results in a folder, too."""


@dataclass(frozen=True)
class PlanEntry:
    """One row of the comparison: a source model and a method that starts from it."""

    name: str
    """Name in tables."""
    objective: str
    """Training objective of the source model."""
    method: str
    """Online method."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Differences from the method's defaults."""
    batch_size: int | None = None
    """Windows per batch; None means the profile's."""
    profile: str | None = None
    """Profile of this entry, for training and stream; None means the plan's."""
    device: str | None = None
    """Device of the stream run, such as ``cpu``; None means that of the command. Models are trained on the latter."""


@dataclass(frozen=True)
class TrainingJob:
    """One source model to train."""

    scenario: str
    objective: str
    trial: int
    profile: str | None = None
    """Profile; None means the plan's."""

    @property
    def key(self) -> str:
        """Unique name of the job, usable as a file name."""
        profile = [Path(self.profile).stem] if self.profile else []
        return "-".join((Path(self.scenario).stem, self.objective, *profile, str(self.trial)))


@dataclass(frozen=True)
class StreamRun:
    """One method to run on one stream."""

    scenario: str
    fault: str
    entry: PlanEntry
    trial: int

    @property
    def key(self) -> str:
        """Unique name of the job, usable as a file name."""
        name = "".join(letter if letter.isalnum() else "_" for letter in self.entry.name)
        return f"{Path(self.scenario).stem}-{self.fault}-{name}-{self.trial}"

    @property
    def training(self) -> TrainingJob:
        """The job that trains the source model of this run."""
        return TrainingJob(self.scenario, self.entry.objective, self.trial, self.entry.profile)


@dataclass(frozen=True)
class Plan:
    """Scenarios x faults x entries x trials."""

    name: str
    scenarios: tuple[str, ...]
    """Names of built-in scenarios, or paths of files."""
    entries: tuple[PlanEntry, ...]
    faults: tuple[str, ...] = ()
    """Faults to include; empty means all."""
    profile: str = "paper"
    profiles: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Additional profiles that entries may name: differences from the plan's profile."""
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """By scenario: differences from the profile, such as the window length for a slow sensor."""
    trials: int = 10
    """Paper, section III-A4."""
    first_trial: int = 0
    """Number of the first trial; a settings search uses trials that no comparison uses."""
    seed: int = 10
    """Paper, section III-A4; the seed of every job derives from it."""
    specimens: int = 3
    """Specimens of each class to train on, if the machine is simulated."""
    first_specimen: int = 1
    """Number of the first of them."""
    watched: int = 1
    """Number of the specimen that produces the stream; above those to train on, it is absent from training."""

    def __post_init__(self) -> None:
        if not 1 <= self.first_specimen <= self.watched:
            raise ConfigError(
                f"first_specimen {self.first_specimen}, watched {self.watched}; expected 1 <= first_specimen <= watched"
            )
        names = [entry.name for entry in self.entries]
        if not self.scenarios or not names or self.trials < 1 or self.specimens < 1:
            raise ConfigError("expected at least one scenario, entry, trial and specimen")
        if len({StreamRun("", "", entry, 0).key for entry in self.entries}) != len(names):
            raise ConfigError(f"entries {', '.join(names)}: two of them have the same name")
        if self.name in RESERVED_NAMES or "/" in self.name or not self.name.strip("."):
            raise ConfigError(
                f"plan name {self.name!r}: results are written to a folder of that name, which must be its own"
            )
        unknown = self.settings.keys() - {Path(scenario).stem for scenario in self.scenarios}
        if unknown:
            raise ConfigError(f"settings of {', '.join(sorted(unknown))}: no such scenario in this plan")

    @classmethod
    def load(cls, name_or_path: str | Path) -> Plan:
        """Read a built-in plan by name, or a plan from a TOML file.

        A file with ``like = PLAN`` inherits every setting it does not give from that plan; its ``more`` entries follow
        the inherited ones. An entry with a ``grid``, a table of lists, expands into one per combination of values.
        """
        table = read_named(name_or_path, builtin_plans(), "plan")
        seen: list[str] = []
        more = _more_entries(table)
        while "like" in table:
            seen.append(str(table.pop("like")))
            if seen.count(seen[-1]) > 1:
                raise ConfigError(f"plan {name_or_path}: like {', like '.join(seen)}; plans cannot be like each other")
            table = read_named(seen[-1], builtin_plans(), "plan") | table
            more = _more_entries(table) + more
        entries = table.get("entries")
        if isinstance(entries, list):
            entries = entries + more
            table = {**table, "entries": [expanded for entry in entries for expanded in _expand_grid(entry)]}
        return bind(cls, table, f"plan {name_or_path}")

    def to_toml(self) -> str:
        """Return the plan as TOML that :meth:`load` can read."""
        return toml_text(as_table(self))

    def profile_of(self, scenario: str, profile: str | None = None) -> Profile:
        """Return the plan's profile, or the named one, with the settings for a scenario applied."""
        own = self.profiles.get(profile or "")
        changes = overlay(self.settings.get(Path(scenario).stem, {}), own or {})
        return Profile.load(self.profile if own is not None else profile or self.profile, changes)

    def faults_of(self, scenario: str) -> list[str]:
        """Return the faults of a scenario that the plan includes."""
        return [fault for fault in Scenario.load(scenario).faults if not self.faults or fault in self.faults]

    def stream_runs(self) -> list[StreamRun]:
        """Return every stream run, trial by trial, so that an interrupted plan has complete trials."""
        faults = {scenario: self.faults_of(scenario) for scenario in self.scenarios}
        return [
            StreamRun(scenario, fault, entry, trial)
            for trial in range(self.first_trial, self.first_trial + self.trials)
            for scenario in self.scenarios
            for fault in faults[scenario]
            for entry in self.entries
        ]

    @property
    def trained_specimens(self) -> range:
        """Numbers of the specimens to train on, if the machine is simulated."""
        return range(self.first_specimen, self.first_specimen + self.specimens)

    @property
    def simulated_specimens(self) -> range:
        """Numbers of the specimens to simulate."""
        return range(self.first_specimen, max(self.trained_specimens.stop, self.watched + 1))

    def job_seed(self, job: TrainingJob | StreamRun) -> int:
        """Return the seed of a job, which is independent of the other jobs and of their order."""
        entropy = [self.seed, zlib.crc32(job.key.encode())]
        return int(np.random.SeedSequence(entropy).generate_state(1, np.uint32)[0] >> 1)


def training_jobs(runs: Sequence[StreamRun]) -> list[TrainingJob]:
    """Return the training jobs that stream runs depend on, each once."""
    return list(dict.fromkeys(run.training for run in runs))


def part_filter(plan: Plan, parts: Sequence[str]) -> Callable[[StreamRun], bool] | None:
    """Return a filter for parts of a plan, given as SCENARIO or SCENARIO/OBJECTIVE; None if there are no parts."""
    known = {(Path(run.scenario).stem, run.entry.objective) for run in plan.stream_runs()}
    for part in parts:
        scenario, _, objective = part.partition("/")
        if not any(scenario == name and objective in ("", kind) for name, kind in known):
            names = sorted(f"{name}/{kind}" for name, kind in known)
            raise ConfigError(f"plan {plan.name} has no part {part!r}; it has {', '.join(names)}")
    if not parts:
        return None

    def is_included(run: StreamRun) -> bool:
        name = Path(run.scenario).stem
        return name in parts or f"{name}/{run.entry.objective}" in parts

    return is_included


def builtin_plans() -> dict[str, Path]:
    """Return the plan files shipped with cgsa, by name."""
    return builtin_files("bench/plans")


def _more_entries(table: dict[str, object]) -> list[object]:
    """Take the entries that follow inherited ones out of a plan file."""
    more = table.pop("more", [])
    return more if isinstance(more, list) else [more]


def _expand_grid(entry: object) -> Iterator[object]:
    """Yield the entries of a grid, or the entry itself if it has no grid."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("grid"), Mapping):
        yield entry
        return
    grid: Mapping[str, Sequence[object]] = entry["grid"]
    plain = {key: value for key, value in entry.items() if key != "grid"}
    for values in product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        label = " ".join(f"{name}={value}" for name, value in chosen.items())
        # The batch size is a setting of the stream, all others are settings of the method.
        changes: dict[str, object] = {"name": f"{entry.get('name', '')} {label}"}
        if "batch_size" in chosen:
            changes["batch_size"] = chosen.pop("batch_size")
        yield overlay(plain, changes | {"settings": chosen})
