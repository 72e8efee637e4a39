"""Choosing how to import a folder: by what it is, and by what a person states or answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Protocol

from cgsa.data.importing.files import FoundFiles, find_files, plan_names, plan_table
from cgsa.data.importing.mcc5 import is_mcc5, plan_mcc5
from cgsa.data.importing.patterns import NamePattern
from cgsa.data.importing.plan import ImportPlan, find_healthy
from cgsa.data.importing.steady import is_steady_state, plan_steady_state
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


def choose_plan(
    folder: Path,
    options: ReadOptions,
    *,
    pattern: str | None = None,
    table: Path | None = None,
    healthy: str | None = None,
    use_suggestion: bool = False,
    questions: Questions | None = None,
) -> ImportPlan:
    """Return the plan for a folder.

    Parameters
    ----------
    folder, options
        What to import, and how files are read.
    pattern, table
        What says the class and the conditions of every file; at most one of them.
    healthy
        The healthy class; by default the one whose name says so.
    use_suggestion
        Whether a pattern that was found in the names is used unasked.
    questions
        Whom to ask for what is missing; None raises an error that names the option.
    """
    if pattern is not None and table is not None:
        raise ConfigError("--names and --table both say what the files are; expected one of them")
    if not folder.is_dir():
        raise DataError(f"{folder}: {'a file' if folder.exists() else 'no such folder'}; expected a folder of recordings")
    plan = None
    if pattern is None and table is None:
        plan = _known_layout(folder, options, healthy, questions)
    if plan is None:
        plan = _plan_files(folder, options, pattern, table, healthy, use_suggestion, questions)
    if healthy is None and plan.healthy is None and questions is not None:
        names = sorted({one.label for one in plan.recordings})
        if find_healthy(names) is None:
            return replace(plan, healthy=questions.ask_healthy(names))
    # Raises an error that names the option, if the healthy class is unclear.
    _ = plan.classes
    return plan


def _known_layout(
    folder: Path, options: ReadOptions, healthy: str | None, questions: Questions | None
) -> ImportPlan | None:
    if is_steady_state(folder):
        if replace(options, sample_rate=None) != ReadOptions():
            raise ConfigError(f"{folder}: its meta.json says how its files are read; only --rate may be added to it")
        try:
            return plan_steady_state(folder, sample_rate=options.sample_rate, healthy=healthy)
        except DataError as error:
            if "states no sample rate" not in str(error):
                raise
            if questions is None:
                raise DataError(f"{folder}: its meta.json states no sample rate; pass --rate HZ") from error
            return plan_steady_state(folder, sample_rate=questions.ask_rate(folder), healthy=healthy)
    return plan_mcc5(folder, healthy=healthy, options=options) if is_mcc5(folder) else None


def _plan_files(
    folder: Path,
    options: ReadOptions,
    pattern: str | None,
    table: Path | None,
    healthy: str | None,
    use_suggestion: bool,
    questions: Questions | None,
) -> ImportPlan:
    if table is not None:
        drafted = plan_table(folder, table, options, healthy=healthy)
        completed = _completed(options, drafted.recordings[0].path, questions)
        return plan_table(folder, table, completed, healthy=healthy)
    found = find_files(folder)
    if pattern is None:
        suggested = suggest_pattern(found.relative)
        if questions is not None:
            pattern = questions.ask_pattern(found, suggested)
        elif suggested is not None and use_suggestion:
            pattern = suggested
        else:
            hint = f"the names suggest --names '{suggested}'; --yes uses it" if suggested else "such as {class}_{speed}rpm"
            raise ConfigError(
                f"{folder}: what the {len(found.files)} files are is not stated, such as {found.relative[0]}; pass "
                f"--names with a pattern or --table ({hint})"
            )
    return plan_names(found, NamePattern(pattern), _completed(options, found.files[0], questions), healthy=healthy)


def _completed(options: ReadOptions, path: Path, questions: Questions | None) -> ReadOptions:
    """Return the options with what the first file does not state, and a person does."""
    header = open_signal(path)
    if header.recording is not None:
        return options
    if header.sample_rate is None and options.sample_rate is None:
        if questions is None:
            raise DataError(f"{path}: states no sample rate; pass --rate HZ")
        options = replace(options, sample_rate=questions.ask_rate(path))
    missing = options.missing_units(header)
    if missing and options.units is None and questions is not None:
        options = replace(options, units=questions.ask_unit(path, missing))
    return options
