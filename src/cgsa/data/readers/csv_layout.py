"""The layout of a text file of columns: encoding, delimiter, decimal sign, header, units and time column."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cgsa.data.readers.clock import TIME_NAME
from cgsa.data.readers.csv_header import find_header, is_number, split_cells, stated_rate
from cgsa.errors import DataError

SAMPLE_BYTES = 1 << 17
"""Bytes at the start of a file from which its layout is determined."""
DELIMITERS = (";", "\t", "|", ",", " ")
"""In the order of preference; a space also stands for several spaces or tabs."""
DELIMITER_NAMES = {";": "semicolon", "\t": "tab", "|": "bar", ",": "comma", " ": "space"}
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
TIMESTAMP = re.compile(r"(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?")


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

    def place(self, path: Path, name: str) -> int:
        """Return the place of the column of a name."""
        if name not in self.names:
            raise DataError(f"{path}: no column {name!r}; it has {', '.join(self.names)}")
        return self.names.index(name)

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
    header = find_header(path, [(place + 1, lines[place], rows[place]) for place in above], decimal, len(kinds))
    notes = [f"delimiter {DELIMITER_NAMES[delimiter]}"] if len(kinds) > 1 else []
    notes += header.notes
    notes += ["decimal comma"] if decimal == "," else []
    notes += [] if encoding in {"utf-8", "utf-8-sig"} else [f"encoding {encoding}"]
    if len(above) > header.lines:
        notes.append(f"{len(above) - header.lines} lines above the data are not used")
    rate = stated_rate([lines[place] for place in above])
    notes += [] if rate is None else [f"sample rate {rate:g} Hz from the lines above"]
    return CsvLayout(
        encoding=encoding,
        delimiter=delimiter,
        decimal=decimal,
        names=header.names or tuple(f"column {number}" for number in range(1, len(kinds) + 1)),
        units=header.units,
        kinds=kinds,
        named=bool(header.names),
        skipped=first,
        sample_rate=rate,
        notes=tuple(notes),
    )


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


def _is_time(name: str) -> bool:
    return TIME_NAME.fullmatch(name.strip()) is not None
