"""The lines above the data of a text file: names, units, and statements of the sample rate."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cgsa.data.readers.clock import TIME_NAME
from cgsa.data.units import is_unit, normalise_unit
from cgsa.errors import DataError

LONE_NAME = 2
"""In rows of more columns, a single cell with text is no header."""
COMMENT = re.compile(r"^\s*(?:#+|%+|//+|!+)\s?")
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eEdD][+-]?\d+)?|[+-]?(?:nan|inf|infinity)|", re.IGNORECASE)
RATE = re.compile(
    r"(?:sampl\w*[ _-]*(?:rate|freq\w*)|\bfs\b|abtastrate|abtastfrequenz|sampling)\W{0,6}(?:in\W*)?"
    r"(?:\[?(k?)Hz\]?\W*)?([0-9][0-9.,]*(?:e[+-]?\d+)?)\s*(k?)(?:Hz|S/s|sps)?",
    re.IGNORECASE,
)
"""A statement of the sample rate in the lines above the data."""


@dataclass(frozen=True)
class Header:
    """What the lines above the data state about the columns."""

    names: tuple[str, ...]
    """Empty if they state none."""
    units: tuple[str | None, ...]
    notes: list[str]
    lines: int
    """How many of them were used."""


def split_cells(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line without quotation marks and outer spaces."""
    if delimiter == " ":
        parts = line.split()
    elif '"' in line:
        parts = next(csv.reader([line], delimiter=delimiter), [])
    else:
        parts = line.split(delimiter)
    return [part.strip().strip('"').strip() for part in parts]


def is_number(cell: str, decimal: str) -> bool:
    """Return whether a cell is a number or empty."""
    return NUMBER.fullmatch(cell.replace(",", ".") if decimal == "," else cell) is not None


def find_header(path: Path, above: Sequence[tuple[int, str, Sequence[str]]], decimal: str, count: int) -> Header:
    """Return the header of ``count`` columns out of the lines above the data: number, text and cells of each."""
    fitting = [(number, _header_cells(cells, count)) for number, _, cells in above]
    fitting = [(number, cells) for number, cells in fitting if _is_header(cells, count)]
    if not fitting or fitting[-1][0] != above[-1][0]:
        if above and COMMENT.match(above[-1][1]) is None and count > 1 and sum(map(bool, above[-1][2])) > 1:
            raise DataError(
                f"{path}: line {above[-1][0]}, just above the data, has {len(above[-1][2])} cells; expected a "
                f"header of {count}"
            )
        return Header((), (None,) * count, [], 0)
    number, cells = fitting[-1]
    damaged = [cell for cell in cells if cell and is_number(cell, decimal)]
    if damaged:
        raise DataError(
            f"{path}: line {number} mixes numbers such as {damaged[0]!r} with text; expected a header or a row of "
            f"numbers"
        )
    units: list[str | None] = [None] * count
    notes = []
    has_units_row = len(fitting) > 1 and fitting[-2][0] == above[-2][0] and _is_units_row(cells)
    if has_units_row:
        units = [normalise_unit(cell) if cell else None for cell in cells[:count]]
        cells = fitting[-2][1]
        notes = [f"units in line {number}"]
    pairs = [name_and_unit(cell) for cell in cells[:count]]
    if any(unit for _, unit in pairs) and not has_units_row:
        notes = ["units in the header"]
    return Header(
        names=tuple(name or f"column {place}" for place, (name, _) in enumerate(pairs, start=1)),
        units=tuple(unit or stated for (_, stated), unit in zip(pairs, units, strict=True)),
        notes=notes,
        lines=1 + has_units_row,
    )


def _header_cells(cells: Sequence[str], count: int) -> Sequence[str]:
    """Return the cells of a line without a sign of comments before them."""
    first = COMMENT.sub("", cells[0])
    return cells[1:] if not first and len(cells) == count + 1 else [first, *cells[1:]]


def _is_header(cells: Sequence[str], count: int) -> bool:
    """Return whether cells are names of columns; a word in a row of empty cells is a heading."""
    named = sum(map(bool, cells))
    return len(cells) in {count, count + 1} and all(not cell for cell in cells[count:]) and named > (count > LONE_NAME)


def _is_units_row(cells: Sequence[str]) -> bool:
    """Return whether a line below a header states units."""
    full = [cell for cell in cells if cell]
    known = [cell for cell in full if is_unit(cell)]
    bracketed = [cell for cell in full if re.fullmatch(r"\[.*\]|\(.*\)", cell)]
    return bool(full) and (2 * len(known) >= len(full) or len(bracketed) == len(full))


def name_and_unit(cell: str) -> tuple[str, str | None]:
    """Return the name and the unit in a cell of a header.

    >>> name_and_unit("acc_x [g]"), name_and_unit("ax (m/s^2)"), name_and_unit("time_ms"), name_and_unit("x (left)")
    (('acc_x', 'g'), ('ax', 'm/s^2'), ('time', 'ms'), ('x (left)', None))
    """
    found = re.fullmatch(r"(.*?)\s*\[([^\[\]]*)\]", cell) or re.fullmatch(r"(.*\S)\s*\((.*)\)", cell)
    found = found or re.fullmatch(r"(.*\S)\s+(?:/|in)\s+(\S+)", cell)
    if found and (is_unit(found[2]) or ("[" in cell and found[2])):
        return found[1].strip() or cell, normalise_unit(found[2])
    clock = re.fullmatch(r"(.+)[ _](s|ms|us|ns|sec)", cell)
    if clock and TIME_NAME.fullmatch(clock[1]):
        return clock[1], normalise_unit(clock[2])
    return cell, None


def stated_rate(lines: Sequence[str]) -> float | None:
    """Return the sample rate that the lines above the data state, if they state one."""
    rates = set()
    for line in lines:
        for before, number, after in RATE.findall(line):
            text = number.rstrip(".,")
            text = text.replace(",", ".") if text.count(",") == 1 and "." not in text else text.replace(",", "")
            try:
                rates.add(float(text) * (1000 if before or after else 1))
            except ValueError:
                continue
    rate = rates.pop() if len(rates) == 1 else None
    return rate if rate and rate > 0 else None
