"""Import of any readable files: names, folders, columns or a table say what each of them is."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cgsa.data.dataset_selection import natural_order
from cgsa.data.importing.patterns import CLASS, RUN, SPLIT, TEXTS, UNIT, NamePattern
from cgsa.data.importing.plan import FoundRecording, ImportPlan
from cgsa.data.read_options import ReadOptions
from cgsa.data.readers import READERS
from cgsa.data.units import normalise_unit
from cgsa.errors import DataError

FILE = "file"


@dataclass(frozen=True)
class FoundFiles:
    """The files of a folder that a reader may know."""

    folder: Path
    files: tuple[Path, ...]
    skipped: tuple[Path, ...]

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


def find_files(folder: Path) -> FoundFiles:
    """Return the files in a folder and its subfolders whose names end like those of a format that can be read."""
    if not folder.is_dir():
        raise DataError(
            f"{folder}: {'a file' if folder.exists() else 'no such folder'}; expected a folder of recordings"
        )
    suffixes = {suffix for name in READERS for suffix in READERS[name].suffixes}
    files: list[Path] = []
    skipped: list[Path] = []
    for path in sorted(folder.rglob("*"), key=lambda path: natural_order(path.as_posix())):
        parts = path.relative_to(folder).parts
        # Hidden files, and the resource forks that archives made on a Mac contain.
        if not path.is_file() or "__MACOSX" in parts or any(part.startswith(".") for part in parts):
            continue
        (files if path.suffix.lower() in suffixes else skipped).append(path)
    if not files:
        raise DataError(f"{folder}: no file that can be read; known are {', '.join(sorted(suffixes))}")
    return FoundFiles(folder, tuple(files), tuple(skipped))


def plan_names(
    found: FoundFiles, pattern: NamePattern, options: ReadOptions, *, healthy: str | None = None
) -> ImportPlan:
    """Return the plan for files whose names, or folders, say what they are."""
    if CLASS not in pattern.text:
        raise DataError(f"pattern {pattern.text!r}: no {{class}}; expected it, since it is what a model learns")
    recordings, unmatched = [], []
    for path, relative in zip(found.files, found.relative, strict=True):
        # The folder itself may be part of the pattern.
        said = pattern.match(PurePosixPath(found.folder.resolve().name) / relative)
        if said is None or said.label is None:
            unmatched.append(str(relative))
        else:
            recordings.append(FoundRecording(path, said.label, said.conditions, said.unit, said.run, said.split))
    if not recordings:
        raise DataError(
            f"{found.folder}: none of {len(found.files)} names fits {pattern.text!r}, such as {unmatched[0]}"
        )
    some = ", ".join(unmatched[:3])
    notes = [f"{len(unmatched)} names do not fit the pattern and were skipped, such as {some}"] if unmatched else []
    units = {name: pattern.unit_of(name, found.relative) for name in pattern.condition_units}
    return ImportPlan(
        found.folder.resolve().name,
        tuple(recordings),
        lambda one: options.read(one.path),
        healthy,
        units,
        settings=(repr(options),),
        notes=(*found.notes, *notes),
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
