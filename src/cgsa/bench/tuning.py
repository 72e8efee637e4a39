"""Choosing settings by one protocol for all methods, on streams that no comparison scores.

Every method gets the same number of draws from its ranges (``search.toml``),
the first draw being its defaults. All candidates meet streams of another
assembly than the one that is compared, from source models of another seed. The
candidate with the best mean accuracy over all these streams is taken, one for
all scenarios. Candidates are drawn before anything is run, so a search is a
plan like any other: it resumes, and runs wherever plans run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any, cast

import numpy as np

from cgsa.bench.plan import Plan, PlanEntry
from cgsa.bench.records import RunRecord
from cgsa.config import bind, overlay, read_toml
from cgsa.errors import ConfigError

TUNED_ON = 2
"""Number of the assembly whose streams choose the settings; the comparison watches assembly 1."""


@dataclass(frozen=True)
class Knob:
    """One setting to choose: a range or a list."""

    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        is_range = self.low is not None and self.high is not None and self.low < self.high
        if is_range == bool(self.choices) or (self.log and (self.low or 0) <= 0):
            raise ConfigError("expected either low < high (positive where log) or choices")

    def distribution(self, optuna: Any) -> Any:
        """Return the knob in optuna's terms."""
        if self.choices:
            return optuna.distributions.CategoricalDistribution(self.choices)
        return optuna.distributions.FloatDistribution(self.low, self.high, log=self.log)


def search_spaces() -> dict[str, dict[str, Knob]]:
    """Return, by method, what may be chosen; methods without a setting worth choosing are not there."""
    file = resources.files("cgsa") / "bench" / "search.toml"
    with resources.as_file(file) as path:
        tables = cast(Mapping[str, Mapping[str, Mapping[str, object]]], read_toml(path))
    return {
        method: {name: bind(Knob, knob, f"search.toml: {method}.{name}") for name, knob in knobs.items()}
        for method, knobs in tables.items()
    }


def narrowed(plan: Plan, scenarios: Sequence[str]) -> Plan:
    """Return the plan for some of its scenarios alone, under a name of its own; none means all of them."""
    unknown = [name for name in scenarios if name not in plan.scenarios]
    if unknown:
        raise ConfigError(f"plan {plan.name} has no scenario {', '.join(unknown)}; it has {', '.join(plan.scenarios)}")
    if not scenarios:
        return plan
    settings = {name: table for name, table in plan.settings.items() if name in scenarios}
    return replace(plan, name="-".join((plan.name, *scenarios)), scenarios=tuple(scenarios), settings=settings)


def candidates(plan: Plan, budget: int) -> Plan:
    """Return the plan of a search: ``budget`` draws of every entry that has something to choose."""
    optuna = _import_optuna()
    spaces = search_spaces()
    entries: list[PlanEntry] = []
    for entry in plan.entries:
        knobs = {name: knob.distribution(optuna) for name, knob in spaces.get(entry.method, {}).items()}
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=plan.seed))
        draws = [{}, *(study.ask(knobs).params for _ in range(budget - 1))] if knobs else [{}]
        entries += [
            replace(entry, name=f"{entry.name} #{number}", settings=overlay(entry.settings, _short(draw)))
            for number, draw in enumerate(draws)
        ]
    return replace(
        plan,
        name=f"{plan.name}-tuning",
        entries=tuple(entries),
        watched=TUNED_ON,
        first_trial=plan.first_trial + plan.trials,
        trials=1,
    )


@dataclass(frozen=True)
class Choice:
    """What a search found for one entry."""

    entry: PlanEntry
    """With the settings chosen."""
    default: float
    """Mean accuracy of the defaults over the streams of the search."""
    best: float
    """Mean accuracy of what was chosen."""
    draws: int


def choose(plan: Plan, records: Sequence[RunRecord]) -> list[Choice]:
    """Return the best candidate of every entry; of equal ones the first, so the defaults where nothing is better."""
    found: dict[tuple[str, int], list[RunRecord]] = {}
    for record in records:
        name, _, number = record.entry.rpartition(" #")
        found.setdefault((name, int(number)), []).append(record)
    choices = []
    for entry in plan.entries:
        mine = {number: them for (name, number), them in found.items() if name == entry.name}
        if 0 not in mine:
            raise ConfigError(f"the search has no record of {entry.name} with its defaults")
        means = {
            number: float(np.mean([cast(float, one.whole["accuracy"]) for one in them]))
            for number, them in sorted(mine.items())
        }
        best = max(means, key=lambda number: means[number])
        settings = json.loads(str(mine[best][0].whole["settings"]))
        choices.append(Choice(replace(entry, settings=settings), means[0], means[best], len(means)))
    return choices


def tuned(plan: Plan, choices: Sequence[Choice]) -> Plan:
    """Return the plan with the settings that a search chose."""
    return replace(plan, name=f"{plan.name}-tuned", entries=tuple(choice.entry for choice in choices))


def _short(draw: Mapping[str, float]) -> dict[str, object]:
    """Round to three digits, which is what a person would write."""
    return {name: int(value) if float(value).is_integer() else float(f"{value:.3g}") for name, value in draw.items()}


def _import_optuna() -> Any:
    try:
        import optuna  # noqa: PLC0415 - only a search needs it
    except ModuleNotFoundError as error:
        raise ConfigError("drawing settings needs optuna: pip install 'cgsa[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
