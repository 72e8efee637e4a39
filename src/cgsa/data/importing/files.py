"""Import of any readable files: names, folders, columns or a table say what each of them is."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from cgsa.data.dataset_selection import natural_order
from cgsa.data.importing.classes import ClassGlobs
from cgsa.data.importing.key_columns import KeyColumns, RowsReader, recordings_in
from cgsa.data.importing.patterns import CLASS, RUN, SPLIT, TEXTS, UNIT, NameParts, NamePattern
from cgsa.data.importing.plan import FoundRecording, ImportPlan
from cgsa.data.levels import unit_of
from cgsa.data.read_options import ReadOptions
from cgsa.data.readers import READERS
from cgsa.data.units import normalise_unit
from cgsa.errors import ConfigError, DataError

FILE = "file"


@dataclass(frozen=True)
class FoundFiles:
    """The files of a folder that a reader may know."""

    folder: Path
    files: tuple[Path, ...]
    skipped: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        """Name of the folder, or of the only file."""
        return self.files[0].stem if len(self.files) == 1 else self.folder.resolve().name

    @property
    def relative(self) -> list[PurePosixPath]:
        """Paths of the files below the folder."""
        return [PurePosixPath(path.relative_to(self.folder).as_posix()) for path in self.files]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was skipped."""
        if not self.skipped:
            return ()
        some = ", ".join(path.name for path in self.skipped[:3])
        return (f"{len(self.skipped)} files are of no known format and were skipped, such as {some}",)


@dataclass(frozen=True)
class NamedClasses:
    """Where the classes of files are stated: in their names by a pattern, by patterns of paths, or in a column."""

    pattern: NamePattern | None = None
    globs: ClassGlobs | None = None
    keys: KeyColumns | None = None
    notes: tuple[str, ...] = ()
    """What was taken for granted."""

    def __post_init__(self) -> None:
        ways = {
            "{class} in --names": self.pattern is not None and CLASS in self.pattern.names,
            "--classes": self.globs is not None,
            "--class-column": self.keys is not None,
        }
        given = [way for way, used in ways.items() if used]
        if len(given) > 1:
            raise ConfigError(f"{' and '.join(given)} both state the class; expected one of them")
        if not given and self.pattern is not None:
            raise DataError(
                f"pattern {self.pattern.text!r}: no {{class}}; expected it, since it is what a model learns, or the "
                f"classes by --classes 'healthy=*_K0*,worn=*_W*' or --class-column"
            )

    @property
    def described(self) -> str:
        """What names have to fit, for messages."""
        pattern = [] if self.pattern is None else [repr(self.pattern.text)]
        return " and ".join([*pattern, *(["--classes"] if self.globs is not None else [])])

    def parts_of(self, found: FoundFiles, path: Path) -> tuple[NameParts, list[str]] | None:
        """Return what the name of a file says, and the classes that it may be of; None if it does not fit."""
        relative = PurePosixPath(path.relative_to(found.folder).as_posix())
        pattern = self.pattern or NamePattern("*")
        # The folder itself may be part of the pattern.
        said = pattern.match(PurePosixPath(found.folder.resolve().name) / relative)
        if said is None:
            return None
        if self.globs is None:
            return said, [said.label or ""]
        classes = self.globs.classes_of(relative)
        return (said, classes) if classes else None


def find_files(paths: Sequence[Path]) -> FoundFiles:
    """Return the files that may be recordings: those given, or all below a folder.

    In a folder, these are the files whose names end like those of a format that can be read, or with a number as in
    ``2004.02.12.10.32.39``.
    """
    if len(paths) == 1 and paths[0].is_dir():
        return _files_below(paths[0])
    for path in paths:
        if not path.is_file():
            what = "a folder" if path.is_dir() else "no such file" if len(paths) > 1 else "no such file or folder"
            raise DataError(f"{path}: {what}; expected {'files' if len(paths) > 1 else 'recordings'}")
    if len({path.resolve() for path in paths}) < len(paths):
        raise DataError(f"a file is given twice among {', '.join(map(str, paths[:3]))}; expected each once")
    absolute = [path.absolute() for path in paths]
    return FoundFiles(Path(os.path.commonpath([path.parent for path in absolute])), tuple(absolute))


def _files_below(folder: Path) -> FoundFiles:
    suffixes = {suffix for name in READERS for suffix in READERS[name].suffixes}
    files: list[Path] = []
    skipped: list[Path] = []
    for path in sorted(folder.rglob("*"), key=lambda path: natural_order(path.as_posix())):
        parts = path.relative_to(folder).parts
        # Hidden files, and the resource forks that archives made on a Mac contain.
        if not path.is_file() or "__MACOSX" in parts or any(part.startswith(".") for part in parts):
            continue
        known = path.suffix.lower() in suffixes or path.suffix[1:].isdecimal()
        (files if known else skipped).append(path)
    if not files:
        raise DataError(f"{folder}: no file that can be read; known are {', '.join(sorted(suffixes))}")
    return FoundFiles(folder, tuple(files), tuple(skipped))


def plan_recordings(
    found: FoundFiles, stated: NamedClasses, options: ReadOptions, *, healthy: str | None = None
) -> ImportPlan:
    """Return the plan for files whose names, folders or columns say what they are."""
    recordings: list[FoundRecording] = []
    notes = [*found.notes, *stated.notes]
    unfitting: list[PurePosixPath] = []
    several: list[str] = []
    for path, relative in zip(found.files, found.relative, strict=True):
        parts = stated.parts_of(found, path)
        if parts is None:
            unfitting.append(relative)
            continue
        said, classes = parts
        if stated.keys is not None:
            segments, more = recordings_in(path, stated.keys, options)
            notes += more
        else:
            segments = [FoundRecording(path, classes[0])]
        several += [f"{relative} ({' before '.join(classes)})"] if len(classes) > 1 else []
        recordings += [_with_parts(one, said) for one in segments]
    if not recordings:
        raise DataError(
            f"{found.folder}: none of {len(found.files)} names fits {stated.described}, such as {unfitting[0]}"
        )
    if unfitting:
        some = ", ".join(map(str, unfitting[:3]))
        notes.append(f"{len(unfitting)} names do not fit {stated.described} and were skipped, such as {some}")
    if several:
        notes.append(f"{len(several)} files fit several classes, of which the first counts, such as {several[0]}")
    pattern = stated.pattern or NamePattern("*")
    # A column may be called by its unit, as in RPM=speed.
    units = {new: unit_of(name.lower()) or unit_of(new) for name, new in options.conditions.items()}
    units |= {name: pattern.unit_of(name, found.relative) for name in pattern.condition_units}
    read = (lambda one: options.read(one.path)) if stated.keys is None else RowsReader(stated.keys, options).read
    return ImportPlan(
        found.name, tuple(recordings), read, healthy, units, settings=(repr(options),), notes=tuple(notes)
    )


def _with_parts(found: FoundRecording, said: NameParts) -> FoundRecording:
    """Add what the name of a file says to what its columns or folders say."""
    return replace(
        found,
        label=said.label or found.label,
        conditions=said.conditions,
        unit=found.unit or said.unit,
        run=found.run or said.run,
        split=said.split,
    )


def plan_table(folder: Path, table: Path, options: ReadOptions, *, healthy: str | None = None) -> ImportPlan:
    """Return the plan for files that a table lists: columns file and class, if wanted unit, run, split, conditions."""
    header, rows = _read_table(table)
    conditions = {name: _condition_name(name) for name in header if name not in (FILE, *TEXTS)}
    recordings = []
    for line, row in enumerate(rows, start=2):
        where = f"{table}, line {line}"
        cells = dict(zip(header, row, strict=True))
        path = folder / cells[FILE]
        if not path.is_file():
            raise DataError(f"{where}: no file {cells[FILE]!r} below {folder}")
        split = cells.get(SPLIT) or None
        if split not in (None, "train", "test"):
            raise DataError(f"{where}: split {split!r}; expected train, test or nothing")
        levels = {conditions[name][0]: _number(cells[name], f"{where}: {name}") for name in conditions}
        recordings.append(
            FoundRecording(
                path,
                cells[CLASS],
                levels,
                cells.get(UNIT) or None,
                cells.get(RUN) or None,
                "test" if split == "test" else "train" if split else None,
            )
        )
    return ImportPlan(
        folder.resolve().name,
        tuple(recordings),
        lambda one: options.read(one.path),
        healthy,
        dict(conditions.values()),
        settings=(repr(options),),
    )


def _read_table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a table, of which the delimiter is the most frequent one in the header."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines(), delimiter=delimiter) if row]
    header, body = (rows[0] if rows else []), rows[1:]
    missing = [name for name in (FILE, CLASS) if name not in header]
    if missing or len(set(header)) != len(header):
        raise DataError(f"{path}: columns {', '.join(header) or 'none'}; expected file, class and others, each once")
    for line, row in enumerate(body, start=2):
        if len(row) != len(header) or not all(row[header.index(name)] for name in (FILE, CLASS)):
            raise DataError(
                f"{path}, line {line}: {len(row)} cells; expected {len(header)}, with file and class filled"
            )
    if not body:
        raise DataError(f"{path}: no row; expected one per file")
    return header, body


def _condition_name(column: str) -> tuple[str, str]:
    """Return name and unit of a column such as ``speed (rpm)``; the unit is empty if it has none.

    >>> _condition_name("speed (rpm)"), _condition_name("load")
    (('speed', 'rpm'), ('load', ''))
    """
    name, bracket, rest = column.replace("[", "(").partition("(")
    return name.strip(), normalise_unit(rest.rstrip(")] ")) if bracket else ""


def _number(text: str, where: str) -> float:
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{where} is {text!r}; expected a number")
    return value
