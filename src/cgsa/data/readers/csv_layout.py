"""The layout of a text file of columns: encoding, delimiter, decimal sign, header, units and time column."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cgsa.data.readers.clock import TIME_NAME, TIME_UNITS
from cgsa.data.units import is_unit, normalise_unit
from cgsa.errors import DataError

SAMPLE_BYTES = 1 << 17
"""Bytes at the start of a file from which its layout is determined."""
DELIMITERS = (";", "\t", "|", ",", " ")
"""In the order of preference; a space also stands for several spaces or tabs."""
DELIMITER_NAMES = {";": "semicolon", "\t": "tab", "|": "bar", ",": "comma", " ": "space"}
COMMENT = re.compile(r"^\s*(?:#+|%+|//+|!+)\s?")
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eEdD][+-]?\d+)?|[+-]?(?:nan|inf|infinity)|", re.I)
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
TIMESTAMP = re.compile(r"(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?")
RATE = re.compile(
    r"(?:sampl\w*[ _-]*(?:rate|freq\w*)|\bfs\b|abtastrate|abtastfrequenz|sampling)\W{0,6}(?:in\W*)?"
    r"(?:\[?(k?)Hz\]?\W*)?([0-9][0-9.,]*(?:e[+-]?\d+)?)\s*(k?)(?:Hz|S/s|sps)?",
    re.I,
)
"""A statement of the sample rate in the lines above the data."""


@dataclass(frozen=True)
class CsvLayout:
    """How the cells of a file are written."""

    encoding: str
    delimiter: str
    decimal: str
    names: tuple[str, ...]
    """Of all columns; ``column 1`` and so on in files without a header."""
    units: tuple[str | None, ...]
    kinds: tuple[str, ...]
    """Of each column: number, timestamp, text or empty."""
    named: bool
    skipped: int
    """Lines before the first row of data."""
    sample_rate: float | None
    """As a line above the data states it."""
    notes: tuple[str, ...]

    def row(self, number: int) -> str:
        """Return the name of a data row, counted from 1, with its line in an editor."""
        return f"row {number} (line {number + self.skipped})"

    @property
    def time_column(self) -> int | None:
        """Place of the column that holds the time: of time stamps, or by its name."""
        stamps = [place for place, kind in enumerate(self.kinds) if kind == "timestamp"]
        named = [place for place, name in enumerate(self.names) if self.kinds[place] == "number" and _is_time(name)]
        return next(iter([*named, *stamps]), None)


def text_encoding(head: bytes) -> str | None:
    """Return the encoding of a text by its first bytes, which may end within a character; None if it is no text."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif head.startswith(codecs.BOM_UTF8):
        encoding = "utf-8-sig"
    elif len(head) > 3 and b"\0" in head[:64]:
        encoding = "utf-16-le" if head[1] == 0 else "utf-16-be"
    else:
        encoding = "utf-8"
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        if encoding != "utf-8":
            return None
        encoding, text = "cp1252", head.decode("latin-1")
    controls = sum(character < " " and character not in "\t\r\n\f\x1a" for character in text)
    strange = encoding.startswith("utf-16") and sum(character > "\u2fff" for character in text) > len(text) / 20
    return None if controls or strange else encoding


def sniff_layout(path: Path) -> CsvLayout:
    """Return the layout of a file.

    Raises
    ------
    DataError
        If the start of the file has no rows of numbers, or could be read in two ways.
    """
    with path.open("rb") as file:
        head = file.read(SAMPLE_BYTES)
    encoding = text_encoding(head)
    if encoding is None:
        raise DataError(f"{path}: not a text file; expected rows of numbers")
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(head)
    lines = [line.rstrip("\r\x1a") for line in text.split("\n")]
    if len(head) == SAMPLE_BYTES and len(lines) > 1:
        lines.pop()  # incomplete
    delimiter, decimal, kinds = _dialect(path, lines)
    rows = [split_cells(line, delimiter) for line in lines]
    first = next(place for place, cells in enumerate(rows) if _is_data(cells, kinds, decimal))
    above = [place for place in range(first) if lines[place].strip()]
    names, units, notes, used = _header(path, lines, above, delimiter, decimal, len(kinds))
    notes = [f"delimiter {DELIMITER_NAMES[delimiter]}", *notes] if len(kinds) > 1 else notes
    notes += ["decimal comma"] if decimal == "," else []
    notes += [] if encoding in {"utf-8", "utf-8-sig"} else [f"encoding {encoding}"]
    if len(above) > used:
        notes.append(f"{len(above) - used} lines above the data are not used")
    layout = CsvLayout(
        encoding, delimiter, decimal, names or _numbered(len(kinds)), units, kinds, bool(names), first, None,
        tuple(notes),
    )  # fmt: skip
    rate = _stated_rate([lines[place] for place in above])
    if rate is not None:
        layout = replace(layout, sample_rate=rate, notes=(*layout.notes, f"sample rate {rate:g} Hz from the lines above"))
    return layout


def split_cells(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line without quotation marks and outer spaces."""
    parts = line.split() if delimiter == " " else line.split(delimiter)
    return [part.strip().strip('"').strip() for part in parts]


def is_number(cell: str, decimal: str) -> bool:
    """Return whether a cell is a number or empty."""
    return NUMBER.fullmatch(cell.replace(",", ".") if decimal == "," else cell) is not None


def _dialect(path: Path, lines: Sequence[str]) -> tuple[str, str, tuple[str, ...]]:
    """Return delimiter, decimal sign, and the kind of each column.

    The one with the most columns wins for which most lines are rows of data.
    """
    tail = [line for line in lines if line.strip()][-200:]
    found = []
    for preference, delimiter in enumerate(DELIMITERS):
        rows = [split_cells(line, delimiter) for line in tail]
        for decimal in ".," if delimiter != "," else ".":
            count = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
            kinds = _kinds([cells for cells in rows if len(cells) == count], decimal)
            numbers = kinds.count("number")
            data = sum(_is_data(cells, kinds, decimal) for cells in rows)
            if numbers and data * 2 >= len(rows) and (count > 1 or delimiter == ";"):
                found.append((numbers, -preference, decimal == ".", delimiter, decimal, kinds))
    best = max(found, default=None)
    if best is None:
        raise DataError(
            f"{path}: no rows of numbers within the first {len(lines)} lines; expected columns of numbers separated "
            f"by commas, semicolons, tabs or spaces"
        )
    *_, delimiter, decimal, kinds = best
    if delimiter == "," and all("." not in cell for line in tail for cell in split_cells(line, ",")):
        _refuse_decimal_commas(path, lines, tail, len(kinds))
        if _has_single_header(lines):
            return ";", ",", ("number",)
    return delimiter, decimal, kinds


def _has_single_header(lines: Sequence[str]) -> bool:
    """Return whether a header without a comma stands above rows with a single comma each: it is the decimal sign."""
    body = [line for line in lines if DECIMAL_COMMA.fullmatch(line.strip())]
    above = [line for line in lines if line.strip() and not DECIMAL_COMMA.fullmatch(line.strip())]
    return len(body) >= len(lines) - 3 and len(above) in {1, 2} and all("," not in line for line in above)


def _refuse_decimal_commas(path: Path, lines: Sequence[str], tail: Sequence[str], count: int) -> None:
    """Refuse rows whose commas may be decimal signs as well as delimiters."""
    header = next((line for line in lines if any(map(str.isalpha, line))), None)
    names = 0 if header is None else len(header.split(","))
    signs = any(re.search(r",0\d", line) for line in tail)
    if (names and 2 * names == count and names > 1) or (not names and count % 2 == 0 and signs):
        raise DataError(
            f"{path}: commas seem to be decimal signs as well as delimiters; export it with another delimiter, such as "
            f"a semicolon"
        )


def _kinds(rows: Sequence[Sequence[str]], decimal: str) -> tuple[str, ...]:
    """Return the kind of each column: what most of its cells are."""
    kinds = []
    for column in zip(*rows, strict=True):
        full = [cell for cell in column if cell]
        counts = {
            "number": sum(is_number(cell, decimal) for cell in full),
            "timestamp": sum(TIMESTAMP.fullmatch(cell) is not None for cell in full),
        }
        best = max(counts, key=lambda kind: counts[kind])
        kinds.append("empty" if not full else best if 2 * counts[best] >= len(full) else "text")
    return tuple(kinds)


def _is_data(cells: Sequence[str], kinds: Sequence[str], decimal: str) -> bool:
    """Return whether a line is a row of data."""
    return len(cells) == len(kinds) and all(
        kind in {"text", "empty"} or (is_number(cell, decimal) if kind == "number" else TIMESTAMP.fullmatch(cell))
        for cell, kind in zip(cells, kinds, strict=True)
    ) and any(cell for cell, kind in zip(cells, kinds, strict=True) if kind == "number")  # fmt: skip


def _header(
    path: Path, lines: Sequence[str], above: Sequence[int], delimiter: str, decimal: str, count: int
) -> tuple[tuple[str, ...], tuple[str | None, ...], list[str], int]:
    """Return names, units, notes and the number of lines used, out of the lines above the data."""
    candidates = [(place, split_cells(COMMENT.sub("", lines[place]), delimiter)) for place in above]
    fitting = [(place, cells) for place, cells in candidates if _is_header(cells, count)]
    if not fitting or fitting[-1][0] != above[-1]:
        if above and not _is_comment(lines[above[-1]]) and count > 1 and len(candidates[-1][1]) > 1:
            cells = len(candidates[-1][1])
            raise DataError(
                f"{path}: line {above[-1] + 1}, just above the data, has {cells} cells; expected a header of {count}"
            )
        return (), (None,) * count, [], 0
    place, header = fitting[-1]
    damaged = [cell for cell in header if cell and is_number(cell, decimal)]
    if damaged:
        raise DataError(f"{path}: line {place + 1} mixes numbers such as {damaged[0]!r} with text; expected a header or a row of numbers")
    units: list[str | None] = [None] * count
    notes, used = [], 1
    if len(fitting) > 1 and fitting[-2][0] == above[-2] and _is_units_row(header):
        units = [normalise_unit(cell) if cell else None for cell in header[:count]]
        header = fitting[-2][1]
        notes, used = [f"units in line {place + 1}"], 2
    pairs = [name_and_unit(cell) for cell in header[:count]]
    if any(unit for _, unit in pairs) and used == 1:
        notes.append("units in the header")
    units = [unit or stated for (_, stated), unit in zip(pairs, units, strict=True)]
    names = [name or f"column {number}" for number, (name, _) in enumerate(pairs, start=1)]
    return tuple(names), tuple(units), notes, used


def _is_header(cells: Sequence[str], count: int) -> bool:
    return len(cells) in {count, count + 1} and all(not cell for cell in cells[count:]) and any(cells)


def _is_comment(line: str) -> bool:
    return COMMENT.match(line) is not None


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


def _is_time(name: str) -> bool:
    return TIME_NAME.fullmatch(name.strip()) is not None


def time_unit(unit: str | None) -> str | None:
    """Return the unit of a time column; None if it states none."""
    return unit if unit in TIME_UNITS else None


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"column {number}" for number in range(1, count + 1))


def _stated_rate(lines: Sequence[str]) -> float | None:
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
