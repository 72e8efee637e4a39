"""A plan: which methods meet which streams, how often, from which source model.

A plan unfolds into two kinds of jobs. A *training* makes one source model; a
*meeting* lets one method meet one stream. Every job has a key that names it and
a seed that depends on nothing but that name, so any job can be done alone, in
any order and on any machine.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cgsa.config import bind, builtin_files, read_named
from cgsa.data.scenario import Scenario
from cgsa.errors import ConfigError


@dataclass(frozen=True)
class Entry:
    """One row of the comparison: a source model and a method that starts from it."""

    name: str
    """How tables call it."""
    objective: str
    """How the source model is trained."""
    method: str
    """What meets the stream."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """What differs from the method's defaults."""


@dataclass(frozen=True)
class Training:
    """One source model to train."""

    scenario: str
    objective: str
    trial: int

    @property
    def key(self) -> str:
        """Name of the job, fit for a file name."""
        return f"{Path(self.scenario).stem}-{self.objective}-{self.trial}"


@dataclass(frozen=True)
class Meeting:
    """One stream for one method to meet."""

    scenario: str
    fault: str
    entry: Entry
    trial: int

    @property
    def key(self) -> str:
        """Name of the job, fit for a file name."""
        name = "".join(letter if letter.isalnum() else "_" for letter in self.entry.name)
        return f"{Path(self.scenario).stem}-{self.fault}-{name}-{self.trial}"

    @property
    def training(self) -> Training:
        """The training that makes this meeting's source model."""
        return Training(self.scenario, self.entry.objective, self.trial)


@dataclass(frozen=True)
class Plan:
    """Scenarios x faults x entries x trials."""

    name: str
    scenarios: tuple[str, ...]
    """Names of built-in scenarios, or paths of files."""
    entries: tuple[Entry, ...]
    profile: str = "paper"
    trials: int = 10
    """Paper, section III-A4."""
    seed: int = 10
    """Paper, section III-A4; every job draws its own seed from it."""
    specimens: int = 3
    """Assemblies of each class to train on, where the machine is simulated."""

    def __post_init__(self) -> None:
        names = [entry.name for entry in self.entries]
        if not self.scenarios or not names or self.trials < 1 or self.specimens < 1:
            raise ConfigError("expected at least one scenario, entry, trial and specimen")
        if len({Meeting("", "", entry, 0).key for entry in self.entries}) != len(names):
            raise ConfigError(f"entries {', '.join(names)}: two of them have the same name")

    @classmethod
    def load(cls, name_or_path: str | Path) -> Plan:
        """Read a plan by the name of a built-in one or from a TOML file."""
        return bind(cls, read_named(name_or_path, builtin_plans(), "plan"), f"plan {name_or_path}")

    def meetings(self) -> list[Meeting]:
        """Return every meeting, trial by trial, so that a plan that is stopped early has whole trials."""
        return [
            Meeting(scenario, fault, entry, trial)
            for trial in range(self.trials)
            for scenario in self.scenarios
            for fault in Scenario.load(scenario).faults
            for entry in self.entries
        ]

    def trainings(self) -> list[Training]:
        """Return every training that some meeting needs, each once."""
        return list(dict.fromkeys(meeting.training for meeting in self.meetings()))

    def job_seed(self, job: Training | Meeting) -> int:
        """Return the seed of a job: the same whatever else the plan holds, and whenever it is done."""
        words = [self.seed, zlib.crc32(job.key.encode())]
        return int(np.random.SeedSequence(words).generate_state(1, np.uint32)[0] >> 1)


def builtin_plans() -> dict[str, Path]:
    """Return the plan files that come with cgsa, by name."""
    return builtin_files("bench/plans")
