"""A plan: which methods meet which streams, how often, from which source model.

A plan unfolds into two kinds of jobs. A *training* makes one source model; a
*meeting* lets one method meet one stream. Every job has a key that names it and
a seed that depends on nothing but that name, so any job can be done alone, in
any order and on any machine.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import cast

import numpy as np

from cgsa.config import as_table, bind, builtin_files, overlay, read_named
from cgsa.data.scenario import Scenario
from cgsa.errors import ConfigError
from cgsa.profile import Profile

SHARED_FOLDERS = ("data", "models", "training")
"""Folders beside those of the plans, which all plans in one place share."""


@dataclass(frozen=True)
class PlanEntry:
    """One row of the comparison: a source model and a method that starts from it."""

    name: str
    """How tables call it."""
    objective: str
    """How the source model is trained."""
    method: str
    """What meets the stream."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """What differs from the method's defaults."""
    batch_size: int | None = None
    """Windows a batch instead of the profile's."""
    profile: str | None = None
    """Profile of this entry, source model and all, instead of the plan's."""


@dataclass(frozen=True)
class TrainingJob:
    """One source model to train."""

    scenario: str
    objective: str
    trial: int
    profile: str | None = None
    """Profile, where it is not the plan's."""

    @property
    def key(self) -> str:
        """Name of the job, fit for a file name."""
        words = [Path(self.scenario).stem, self.objective, *([Path(self.profile).stem] if self.profile else [])]
        return "-".join((*words, str(self.trial)))


@dataclass(frozen=True)
class StreamRun:
    """One stream for one method to meet."""

    scenario: str
    fault: str
    entry: PlanEntry
    trial: int

    @property
    def key(self) -> str:
        """Name of the job, fit for a file name."""
        name = "".join(letter if letter.isalnum() else "_" for letter in self.entry.name)
        return f"{Path(self.scenario).stem}-{self.fault}-{name}-{self.trial}"

    @property
    def training(self) -> TrainingJob:
        """The training that makes this meeting's source model."""
        return TrainingJob(self.scenario, self.entry.objective, self.trial, self.entry.profile)


@dataclass(frozen=True)
class Plan:
    """Scenarios x faults x entries x trials."""

    name: str
    scenarios: tuple[str, ...]
    """Names of built-in scenarios, or paths of files."""
    entries: tuple[PlanEntry, ...]
    faults: tuple[str, ...] = ()
    """Only these faults of the scenarios; none means all."""
    profile: str = "paper"
    profiles: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Profiles that entries may name beside the known ones: what differs from the plan's."""
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """By scenario: what differs from the profile there, such as the window length of a slow sensor."""
    trials: int = 10
    """Paper, section III-A4."""
    first_trial: int = 0
    """Number of the first trial; choosing settings takes models that no comparison uses."""
    seed: int = 10
    """Paper, section III-A4; every job draws its own seed from it."""
    specimens: int = 3
    """Assemblies of each class to train on, where the machine is simulated."""
    watched: int = 1
    """Number of the assembly whose stream is met; one beyond ``specimens`` is an assembly that no training saw."""

    def __post_init__(self) -> None:
        names = [entry.name for entry in self.entries]
        if not self.scenarios or not names or self.trials < 1 or self.specimens < 1:
            raise ConfigError("expected at least one scenario, entry, trial and specimen")
        if len({StreamRun("", "", entry, 0).key for entry in self.entries}) != len(names):
            raise ConfigError(f"entries {', '.join(names)}: two of them have the same name")
        if self.name in SHARED_FOLDERS or "/" in self.name or not self.name.strip("."):
            raise ConfigError(
                f"a plan called {self.name!r}; its results go into a folder of that name, which must be its own"
            )
        unknown = self.settings.keys() - {Path(scenario).stem for scenario in self.scenarios}
        if unknown:
            raise ConfigError(f"settings of {', '.join(sorted(unknown))}: no such scenario in this plan")

    @classmethod
    def load(cls, name_or_path: str | Path) -> Plan:
        """Read a plan by the name of a built-in one or from a TOML file.

        A file that begins with ``like = PLAN`` says only what differs from that
        plan. An entry with a ``grid``, a table of lists, stands for one entry
        each combination of its values.
        """
        table = read_named(name_or_path, builtin_plans(), "plan")
        seen: list[str] = []
        while "like" in table:
            seen.append(str(table.pop("like")))
            if seen.count(seen[-1]) > 1:
                raise ConfigError(f"plan {name_or_path}: like {', like '.join(seen)}; plans cannot be like each other")
            table = read_named(seen[-1], builtin_plans(), "plan") | table
        entries = table.get("entries")
        if isinstance(entries, list):
            table = {**table, "entries": [one for entry in entries for one in _unfold(entry)]}
        return bind(cls, table, f"plan {name_or_path}")

    def to_toml(self) -> str:
        """Return the plan as a file that :meth:`load` reads."""
        table = {
            name: value for name, value in as_table(self).items() if value not in (None, [], {}) and name != "entries"
        }
        lines = [f"{name} = {_toml(value)}" for name, value in table.items()]
        for entry in self.entries:
            lines += ["", "[[entries]]"]
            lines += [f"{name} = {_toml(value)}" for name, value in as_table(entry).items() if value not in (None, {})]
        return "\n".join(lines) + "\n"

    def profile_of(self, scenario: str, profile: str | None = None) -> Profile:
        """Return the profile of the plan, or another one, with what differs for a scenario."""
        own = self.profiles.get(profile or "")
        changes = overlay(self.settings.get(Path(scenario).stem, {}), own or {})
        return Profile.load(self.profile if own is not None else profile or self.profile, changes)

    def faults_of(self, scenario: str) -> list[str]:
        """Return the faults of a scenario that the plan asks for."""
        return [fault for fault in Scenario.load(scenario).faults if not self.faults or fault in self.faults]

    def meetings(self) -> list[StreamRun]:
        """Return every meeting, trial by trial, so that a plan that is stopped early has whole trials."""
        faults = {scenario: self.faults_of(scenario) for scenario in self.scenarios}
        return [
            StreamRun(scenario, fault, entry, trial)
            for trial in range(self.first_trial, self.first_trial + self.trials)
            for scenario in self.scenarios
            for fault in faults[scenario]
            for entry in self.entries
        ]

    def job_seed(self, job: TrainingJob | StreamRun) -> int:
        """Return the seed of a job: the same whatever else the plan holds, and whenever it is done."""
        words = [self.seed, zlib.crc32(job.key.encode())]
        return int(np.random.SeedSequence(words).generate_state(1, np.uint32)[0] >> 1)


def trainings_of(meetings: Sequence[StreamRun]) -> list[TrainingJob]:
    """Return every training that some meeting needs, each once."""
    return list(dict.fromkeys(meeting.training for meeting in meetings))


def chooser(plan: Plan, parts: Sequence[str]) -> Callable[[StreamRun], bool] | None:
    """Return what picks the meetings of parts of a plan, written SCENARIO or SCENARIO/OBJECTIVE; none picks all."""
    known = {(Path(meeting.scenario).stem, meeting.entry.objective) for meeting in plan.meetings()}
    for part in parts:
        scenario, _, objective = part.partition("/")
        if not any(scenario == name and objective in ("", kind) for name, kind in known):
            names = sorted(f"{name}/{kind}" for name, kind in known)
            raise ConfigError(f"plan {plan.name} has no part {part!r}; it has {', '.join(names)}")
    if not parts:
        return None

    def chosen(meeting: StreamRun) -> bool:
        name = Path(meeting.scenario).stem
        return name in parts or f"{name}/{meeting.entry.objective}" in parts

    return chosen


def builtin_plans() -> dict[str, Path]:
    """Return the plan files that come with cgsa, by name."""
    return builtin_files("bench/plans")


def _toml(value: object) -> str:
    """Write a value as TOML; texts, numbers and lists are written as in JSON."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(str(key))} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)


def _unfold(entry: object) -> Iterator[object]:
    """Yield the entries that an entry with a grid stands for; any other entry as it is."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("grid"), Mapping):
        yield entry
        return
    grid = cast(Mapping[str, Sequence[object]], entry["grid"])
    plain = {key: value for key, value in entry.items() if key != "grid"}
    for values in product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        label = " ".join(f"{name}={value}" for name, value in chosen.items())
        # The batch size belongs to the stream, everything else to the method.
        changes: dict[str, object] = {"name": f"{entry.get('name', '')} {label}"}
        if "batch_size" in chosen:
            changes["batch_size"] = chosen.pop("batch_size")
        yield overlay(plain, changes | {"settings": chosen})
