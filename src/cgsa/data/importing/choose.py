"""Choosing how to import a folder: by what it is, and by what a person states or answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from cgsa.data.importing.files import FoundFiles, find_files, plan_names, plan_table
from cgsa.data.importing.mcc5 import has_mcc5_runs, plan_mcc5
from cgsa.data.importing.patterns import NamePattern
from cgsa.data.importing.plan import ImportPlan, find_healthy
from cgsa.data.importing.steady import is_steady_state, plan_steady_state, states_rate
from cgsa.data.importing.suggest import suggest_pattern
from cgsa.data.read_options import ReadOptions
from cgsa.data.readers import open_signal
from cgsa.errors import ConfigError, DataError


class Questions(Protocol):
    """A person who answers; nobody is asked what the options state."""

    def ask_pattern(self, found: FoundFiles, suggested: str | None) -> str:
        """Return the pattern of the names."""
        ...

    def ask_healthy(self, classes: list[str]) -> str:
        """Return which class is the healthy one."""
        ...

    def ask_rate(self, path: Path) -> float:
        """Return the sample rate of files that state none."""
        ...

    def ask_unit(self, path: Path, channels: list[str]) -> str | None:
        """Return the unit of channels of which the files state none; None if nobody knows it."""
        ...


@dataclass(frozen=True)
class ImportChoices:
    """What a person states about the files of a folder, or answers."""

    pattern: str | None = None
    """Of the names; see :class:`NamePattern`."""
    table: Path | None = None
    """Lists the files instead."""
    healthy: str | None = None
    """The healthy class; by default the one whose name says so."""
    use_suggestion: bool = False
    """Whether a pattern that was found in the names is used unasked."""
    questions: Questions | None = None
    """Whom to ask for what is missing; None raises an error that names the option."""


def choose_plan(folder: Path, options: ReadOptions, choices: ImportChoices) -> ImportPlan:
    """Return the plan for a folder, whose files are read with the options."""
    if choices.pattern is not None and choices.table is not None:
        raise ConfigError("--names and --table both say what the files are; expected one of them")
    if not folder.is_dir():
        what = "a file" if folder.exists() else "no such folder"
        raise DataError(f"{folder}: {what}; expected a folder of recordings")
    plan = None
    if choices.pattern is None and choices.table is None:
        plan = _known_layout(folder, options, choices)
    if plan is None:
        plan = _plan_files(folder, options, choices)
    if plan.healthy is None and choices.questions is not None:
        names = sorted({one.label for one in plan.recordings})
        if find_healthy(names) is None:
            return replace(plan, healthy=choices.questions.ask_healthy(names))
    # Raises an error that names the option, if the healthy class is unclear.
    _ = plan.classes
    return plan


def _known_layout(folder: Path, options: ReadOptions, choices: ImportChoices) -> ImportPlan | None:
    if is_steady_state(folder):
        if replace(options, sample_rate=None) != ReadOptions():
            raise ConfigError(f"{folder}: its meta.json says how its files are read; only --rate may be added to it")
        rate = options.sample_rate
        if rate is None and not states_rate(folder):
            if choices.questions is None:
                raise DataError(f"{folder}: its meta.json states no sample rate; pass --rate HZ")
            rate = choices.questions.ask_rate(folder)
        return plan_steady_state(folder, sample_rate=rate, healthy=choices.healthy)
    return plan_mcc5(folder, healthy=choices.healthy, options=options) if has_mcc5_runs(folder) else None


def _plan_files(folder: Path, options: ReadOptions, choices: ImportChoices) -> ImportPlan:
    if choices.table is not None:
        drafted = plan_table(folder, choices.table, options)
        completed = _completed(options, drafted.recordings[0].path, choices.questions)
        return plan_table(folder, choices.table, completed, healthy=choices.healthy)
    found = find_files(folder)
    pattern = NamePattern(choices.pattern or _pattern(found, choices))
    completed = _completed(options, found.files[0], choices.questions)
    return plan_names(found, pattern, completed, healthy=choices.healthy)


def _pattern(found: FoundFiles, choices: ImportChoices) -> str:
    """Return the pattern that a person answers, or that the names suggest."""
    suggested = suggest_pattern(found.relative)
    if choices.questions is not None:
        return choices.questions.ask_pattern(found, suggested)
    if suggested is not None and choices.use_suggestion:
        return suggested
    hint = f"the names suggest --names '{suggested}'; --yes uses it" if suggested else "such as {class}_{speed}rpm"
    raise ConfigError(
        f"{found.folder}: what the {len(found.files)} files are is not stated, such as {found.relative[0]}; pass "
        f"--names with a pattern or --table ({hint})"
    )


def _completed(options: ReadOptions, path: Path, questions: Questions | None) -> ReadOptions:
    """Return the options with what the first file does not state, and a person does."""
    header = open_signal(path, array=options.array)
    if header.recording is not None:
        return options
    if header.sample_rate is None and options.sample_rate is None:
        if questions is None:
            raise DataError(f"{path}: {header.why_without_rate}; pass --rate HZ")
        options = replace(options, sample_rate=questions.ask_rate(path))
    missing = options.missing_units(header)
    if missing and options.units is None and questions is not None:
        options = replace(options, units=questions.ask_unit(path, missing))
    return options
