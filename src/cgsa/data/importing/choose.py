"""Choosing how to import a folder: by what it is, and by what a person states or answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from cgsa.data.importing.classes import ClassGlobs
from cgsa.data.importing.files import FoundFiles, NamedClasses, find_files, plan_recordings, plan_table
from cgsa.data.importing.key_columns import KeyColumns
from cgsa.data.importing.mcc5 import has_mcc5_runs, plan_mcc5
from cgsa.data.importing.patterns import NamePattern
from cgsa.data.importing.plan import ImportPlan, find_healthy
from cgsa.data.importing.steady import is_steady_state, plan_steady_state, states_rate
from cgsa.data.importing.suggest import Suggestion, suggest_pattern
from cgsa.data.read_options import ReadOptions
from cgsa.data.readers import open_signal
from cgsa.errors import CgsaError, ConfigError, DataError


class Questions(Protocol):
    """A person who answers; nobody is asked what the options state."""

    def ask_pattern(self, found: FoundFiles, suggested: Suggestion | None) -> str:
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
    classes: str | None = None
    """Patterns of paths with their classes; see :class:`ClassGlobs`."""
    columns: KeyColumns | None = None
    """Columns of tables that hold class, unit and run."""
    healthy: str | None = None
    """The healthy class; by default the one whose name says so."""
    use_suggestion: bool = False
    """Whether a pattern that was found in the names is used unasked."""
    questions: Questions | None = None
    """Whom to ask for what is missing; None raises an error that names the option."""


def choose_plan(data: Path | Sequence[Path], options: ReadOptions, choices: ImportChoices) -> ImportPlan:
    """Return the plan for a folder, or for files, which are read with the options."""
    paths = [data] if isinstance(data, Path) else list(data)
    if choices.table is not None:
        for option, given in (
            ("--names", choices.pattern),
            ("--classes", choices.classes),
            ("--class-column", choices.columns),
        ):
            if given is not None:
                raise ConfigError(f"{option} and --table both say what the files are; expected one of them")
    stated = any(given is not None for given in (choices.pattern, choices.table, choices.classes, choices.columns))
    plan = None
    if not stated and len(paths) == 1 and paths[0].is_dir():
        plan = _known_layout(paths[0], options, choices)
    if plan is None:
        plan = _plan_files(paths, options, choices)
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


def _plan_files(paths: Sequence[Path], options: ReadOptions, choices: ImportChoices) -> ImportPlan:
    if choices.table is not None:
        if len(paths) != 1 or not paths[0].is_dir():
            raise ConfigError("--table lists files below a folder; expected that folder")
        drafted = plan_table(paths[0], choices.table, options)
        completed = _completed(options, drafted.recordings[0].path, choices.questions)
        return plan_table(paths[0], choices.table, completed, healthy=choices.healthy)
    found = find_files(paths)
    errors: list[CgsaError] = []
    named, completed = None, options
    try:
        named = _named_classes(found, choices)
    except CgsaError as error:
        errors.append(error)
    try:
        completed = _completed(options, _first(found, named), choices.questions)
    except CgsaError as error:
        errors.append(error)
    if named is None or errors:
        # All that is missing is said at once.
        raise errors[0] if len(errors) == 1 else ConfigError("\n".join(map(str, errors)))
    return plan_recordings(found, named, completed, healthy=choices.healthy)


def _first(found: FoundFiles, named: NamedClasses | None) -> Path:
    """Return the first file that is a recording as far as its name tells."""
    fitting = (path for path in found.files if named is not None and named.parts_of(found, path) is not None)
    return next(fitting, found.files[0])


def _named_classes(found: FoundFiles, choices: ImportChoices) -> NamedClasses:
    """Return where the classes are stated: by options, by a person, or in names that suggest it."""
    pattern, classes, notes = choices.pattern, choices.classes, tuple[str, ...]()
    if pattern is None and classes is None and choices.columns is None:
        suggested = suggest_pattern(found.relative)
        pattern = _pattern(found, choices, suggested)
        if suggested is not None and pattern == suggested.pattern:
            classes, notes = suggested.classes, (f"names are read by {suggested.option}", *suggested.notes)
    globs = None if classes is None else ClassGlobs.parse(classes)
    return NamedClasses(None if pattern is None else NamePattern(pattern), globs, choices.columns, notes)


def _pattern(found: FoundFiles, choices: ImportChoices, suggested: Suggestion | None) -> str:
    """Return the pattern that a person answers, or that the names suggest."""
    if choices.questions is not None:
        return choices.questions.ask_pattern(found, suggested)
    if suggested is not None and choices.use_suggestion:
        return suggested.pattern
    hint = f"the names suggest {suggested.option}; --yes uses it" if suggested else "such as {class}_{speed}rpm"
    if len(found.files) == 1:
        raise ConfigError(
            f"{found.files[0]}: its class is not stated; pass --class-column if a column holds it, --classes "
            f"'healthy=*' if it is one recording, or --names with a pattern ({hint})"
        )
    about = "".join(f"\n  {note}" for note in suggested.notes) if suggested else ""
    raise ConfigError(
        f"{found.folder}: what the {len(found.files)} files are is not stated, such as {found.relative[0]}; pass "
        f"--names with a pattern, --classes or --table ({hint}){about}"
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
