"""The grid of readings: what each one sets, and the plan that trains and streams them.

A *reading* is one way to read what the paper leaves open. The file ``grid.toml`` names some bases and some changes; a
reading is a base, a base with one change, or one of the listed crossings. The readings run on assemblies of the
simulated machine that nothing published uses, because one of them becomes the profile ``paper``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import cast

from cgsa.bench.plan import Plan, PlanEntry, builtin_plans
from cgsa.bench.rotation.sets import SIMULATED_SPECIMENS
from cgsa.bench.tuning import TUNING_SPECIMEN
from cgsa.config import as_table, bind, builtin_files, overlay, read_named
from cgsa.errors import ConfigError
from cgsa.offline import OBJECTIVES
from cgsa.profile import Profile

PLAN_NAME = "grid"
OTHER_PUBLISHED = 12
"""Scripts in ``benchmarks`` use assemblies up to this number (``false_alarms.py``)."""
METHODS_OF_A_READING: Mapping[str, tuple[str, str, Mapping[str, object]]] = {
    "Baseline": ("plain", "source", {}),
    "DANN": ("dann", "source", {}),
    "CAL": ("cal", "source", {}),
    "CAL+CF": ("cal", "cgsa", {"by_residual": False}),
    "CAL+RCG": ("cal", "cgsa", {"by_confidence": False}),
    "CGSA": ("cal", "cgsa", {}),
}
"""Rows of the paper's ablation (table VI): objective, method and settings."""


@dataclass(frozen=True)
class Crossing:
    """A base with several changes."""

    base: str
    changes: tuple[str, ...]


@dataclass(frozen=True)
class Reading:
    """One way to read what the paper leaves open."""

    name: str
    settings: Mapping[str, object]
    """Differences from the profile, without the budget."""


@dataclass(frozen=True)
class ReadingGrid:
    """The file of a grid."""

    scenario: str
    first_specimen: int
    """Number of the first assembly; nothing published uses it or a later one."""
    specimens: int
    """Assemblies that are simulated. The first one produces the streams; ``train.assemblies`` says how many of them a
    reading trains on."""
    bases: Mapping[str, Mapping[str, object]]
    changes: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    profile: str = "paper"
    trials: int = 3
    """Seeds of every reading."""
    seed: int = 10
    budget: Mapping[str, object] = field(default_factory=dict)
    """Settings of all readings that keep the costs low; a change may replace them."""
    crossings: tuple[Crossing, ...] = ()

    def __post_init__(self) -> None:
        last = last_published_specimen()
        if self.first_specimen <= last:
            raise ConfigError(
                f"first_specimen {self.first_specimen}: published results use assemblies up to {last}, and a reading "
                f"that was chosen on one of them would be tested on what chose it; expected {last + 1} or more"
            )
        if not self.bases:
            raise ConfigError("bases: expected at least one")
        unknown = [crossing.base for crossing in self.crossings if crossing.base not in self.bases]
        unknown += [name for crossing in self.crossings for name in crossing.changes if name not in self.changes]
        if unknown:
            known = ", ".join((*self.bases, *self.changes))
            raise ConfigError(f"crossings of {', '.join(unknown)}: no such base or change; known: {known}")

    @classmethod
    def load(cls, path: Path | None = None) -> ReadingGrid:
        """Read the built-in grid, or one from a TOML file."""
        place = path or builtin_files("bench/readings")["grid"]
        return bind(cls, read_named(place, {}, "grid of readings"), f"grid {place.name}")

    @cached_property
    def readings(self) -> list[Reading]:
        """Every reading once: bases, bases with one change each, and crossings."""
        found = [Reading(base, settings) for base, settings in self.bases.items()]
        found += [
            Reading(f"{base}, {name}", overlay(settings, change))
            for base, settings in self.bases.items()
            for name, change in self.changes.items()
        ]
        for crossing in self.crossings:
            settings: Mapping[str, object] = self.bases[crossing.base]
            for name in crossing.changes:
                settings = overlay(settings, self.changes[name])
            found.append(Reading(", ".join((crossing.base, *crossing.changes)), settings))
        first: dict[str, Reading] = {}
        for reading in found:
            # A change that sets what a base has already is that base.
            first.setdefault(self._key(reading.settings), reading)
        return list(first.values())

    def profile_of(self, settings: Mapping[str, object]) -> Profile:
        """Return the profile of a reading, with the budget."""
        return Profile.load(self.profile, overlay(self.budget, settings))

    def plan(self) -> Plan:
        """Return the plan that trains and streams all readings; equal trainings and streams run once."""
        entries: dict[str, PlanEntry] = {}
        for reading in self.readings:
            for method, (objective, online, settings) in METHODS_OF_A_READING.items():
                name, model = self.entry_of(reading, method), self._models[reading.name, objective]
                entries.setdefault(name, PlanEntry(name, objective, online, settings, profile=model))
        # The longest trainings begin first, so that none is left over when all others have ended.
        by_length = sorted(entries.values(), key=lambda entry: -self._epochs[str(entry.profile)])
        used = {entry.profile for entry in entries.values()}
        settings_of = {_file_name(reading.name): overlay(self.budget, reading.settings) for reading in self.readings}
        profiles = {name: settings for name, settings in settings_of.items() if name in used}
        return Plan(
            PLAN_NAME,
            (self.scenario,),
            tuple(by_length),
            profile=self.profile,
            profiles=profiles,
            trials=self.trials,
            seed=self.seed,
            specimens=self.specimens,
            first_specimen=self.first_specimen,
            watched=self.first_specimen,
        )

    def entry_of(self, reading: Reading, method: str) -> str:
        """Return the name of a plan's entry for a method of a reading; readings that share a training share it."""
        return f"{self._models[reading.name, METHODS_OF_A_READING[method][0]]} {method}"

    @cached_property
    def _epochs(self) -> dict[str, int]:
        return {_file_name(one.name): self.profile_of(one.settings).train.epochs for one in self.readings}

    @cached_property
    def _models(self) -> dict[tuple[str, str], str]:
        """The profile under which the model of a reading and an objective is trained: that of the first equal one."""
        objectives = dict.fromkeys(objective for objective, *_ in METHODS_OF_A_READING.values())
        first: dict[str, str] = {}
        return {
            (reading.name, objective): first.setdefault(
                self._key(reading.settings, objective), _file_name(reading.name)
            )
            for reading in self.readings
            for objective in objectives
        }

    def _key(self, settings: Mapping[str, object], objective: str | None = None) -> str:
        """Return text that is equal for equal settings, or for settings that train equal models of an objective."""
        table = as_table(self.profile_of(settings))
        given = cast(dict[str, dict[str, object]], table.pop("objective"))
        names = [objective] if objective else [name for name, *_ in METHODS_OF_A_READING.values()]
        bound = {name: as_table(bind(OBJECTIVES[name].Config, given.get(name, {}), name)) for name in names}
        if objective == "plain":
            # It trains no discriminator.
            cast(dict[str, object], table["train"]).pop("discriminator")
        return json.dumps([table, bound, objective], sort_keys=True)


def last_published_specimen() -> int:
    """Return the highest number of an assembly that anything published uses."""
    plans = [Plan.load(name).simulated_specimens.stop - 1 for name in builtin_plans()]
    return max(*plans, TUNING_SPECIMEN, SIMULATED_SPECIMENS, OTHER_PUBLISHED)


def _file_name(name: str) -> str:
    """Return a name that files and profiles may have: a dot would end it."""
    return "".join(letter if letter.isalnum() else "_" for letter in name)
