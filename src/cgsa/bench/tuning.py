"""Choosing settings for all methods by one protocol, on streams that no comparison scores.

Every method gets the same number of draws from its ranges (``search.toml``); the first draw is its defaults. All
candidates run on streams of another specimen than the comparison, from source models of another seed. The candidate
with the best mean accuracy over all these streams wins, one for all scenarios. Candidates are drawn before anything
runs, so a search is a plan like any other: it is resumable and runs on every executor.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import numpy as np

from cgsa.bench.extras import import_extra
from cgsa.bench.plan import Plan, PlanEntry
from cgsa.bench.records import RunRecord, grouped, number
from cgsa.config import bind, builtin_files, overlay, read_toml
from cgsa.errors import ConfigError

CHANGED, FROZEN = "changed_share", "source"
TUNING_SPECIMEN = 2
"""Number of the specimen whose streams choose the settings; the comparison uses specimen 1."""
NO_OP = 0.001
"""A method that gives fewer windows than this share another class than its frozen model does nothing."""


@dataclass(frozen=True)
class SearchRange:
    """The values of one setting to search: a range or a list."""

    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        is_range = self.low is not None and self.high is not None and self.low < self.high
        if is_range == bool(self.choices) or (self.log and (self.low or 0) <= 0):
            raise ConfigError("expected either low < high (positive where log) or choices")

    def distribution(self, optuna: ModuleType) -> object:
        """Return the corresponding optuna distribution."""
        if self.choices:
            return optuna.distributions.CategoricalDistribution(self.choices)
        return optuna.distributions.FloatDistribution(self.low, self.high, log=self.log)


@dataclass(frozen=True)
class _SearchFile:
    methods: Mapping[str, Mapping[str, SearchRange]]


def search_spaces() -> Mapping[str, Mapping[str, SearchRange]]:
    """Return the settings to search by method; methods without such settings are absent."""
    return bind(_SearchFile, {"methods": read_toml(builtin_files("bench")["search"])}, "search.toml").methods


def restrict_to_scenarios(plan: Plan, scenarios: Sequence[str]) -> Plan:
    """Return the plan restricted to some of its scenarios, under its own name; an empty list means all."""
    unknown = [name for name in scenarios if name not in plan.scenarios]
    if unknown:
        raise ConfigError(f"plan {plan.name} has no scenario {', '.join(unknown)}; it has {', '.join(plan.scenarios)}")
    if not scenarios:
        return plan
    settings = {name: table for name, table in plan.settings.items() if name in scenarios}
    return replace(plan, name="-".join((plan.name, *scenarios)), scenarios=tuple(scenarios), settings=settings)


def search_plan(plan: Plan, budget: int, real: Mapping[str, str] | None = None) -> Plan:
    """Return the plan of a search: ``budget`` draws for every entry that has settings to search.

    ``real`` has the scenario to search on by that of the plan, if the recordings are real (:mod:`cgsa.bench.search`).
    """
    optuna = import_extra("optuna", extra="tune", purpose="drawing settings")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    spaces = search_spaces()
    entries: list[PlanEntry] = []
    for entry in plan.entries:
        ranges = {name: values.distribution(optuna) for name, values in spaces.get(entry.method, {}).items()}
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=plan.seed))
        draws = [{}, *(study.ask(ranges).params for _ in range(budget - 1))] if ranges else [{}]
        entries += [
            replace(entry, name=f"{entry.name} #{index}", settings=overlay(entry.settings, _rounded_settings(draw)))
            for index, draw in enumerate(draws)
        ]
    if real:
        settings = {Path(real[name]).stem: plan.settings.get(Path(name).stem, {}) for name in plan.scenarios}
        plan = replace(plan, scenarios=tuple(real[name] for name in plan.scenarios), settings=settings)
    else:
        plan = replace(plan, watched=TUNING_SPECIMEN)
    return replace(
        plan,
        name=f"{plan.name}-tuning",
        entries=tuple(entries),
        first_trial=plan.first_trial + plan.trials,
        trials=1,
    )


@dataclass(frozen=True)
class TunedEntry:
    """The result of a search for one entry."""

    entry: PlanEntry
    """The entry with its best settings."""
    default: float
    """Mean accuracy of the defaults over the streams of the search."""
    best: float
    """Mean accuracy of the best settings."""
    draws: int
    changed: float | None = None
    """Share of the windows to which the best settings give another class than the frozen model; None if unknown."""

    @property
    def is_no_op(self) -> bool:
        """Whether the method adapts, and its best settings leave the frozen model as it is."""
        return self.entry.method != FROZEN and self.changed is not None and self.changed < NO_OP


def best_settings(plan: Plan, records: Sequence[RunRecord]) -> list[TunedEntry]:
    """Return the best candidate of every entry; of equal ones the first, so that the defaults win a tie."""
    by_entry = grouped(records, lambda record: record.entry.rpartition(" #")[0])
    choices = []
    for entry in plan.entries:
        mine = grouped(by_entry.get(entry.name, []), lambda record: int(record.entry.rpartition(" #")[2]))
        if 0 not in mine:
            raise ConfigError(f"the search has no record of {entry.name} with its defaults")
        means = {
            draw: float(np.mean([number(record.whole_stream, "accuracy") for record in tried]))
            for draw, tried in sorted(mine.items())
        }
        best = max(means, key=lambda draw: means[draw])
        settings = json.loads(str(mine[best][0].whole_stream["settings"]))
        shares = [number(one.whole_stream, CHANGED) for one in mine[best] if CHANGED in one.whole_stream]
        changed = float(np.mean(shares)) if shares else None
        choices.append(TunedEntry(replace(entry, settings=settings), means[0], means[best], len(means), changed))
    return choices


def tuned_plan(plan: Plan, choices: Sequence[TunedEntry]) -> Plan:
    """Return the plan with the best settings of a search."""
    return replace(plan, name=f"{plan.name}-tuned", entries=tuple(choice.entry for choice in choices))


def _rounded_settings(draw: Mapping[str, float]) -> dict[str, object]:
    """Round to three significant digits."""
    return {name: int(value) if float(value).is_integer() else float(f"{value:.3g}") for name, value in draw.items()}
