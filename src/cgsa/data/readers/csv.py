"""Reader for text files of columns: CSV in any layout, and the files of the MCC5-THU data sets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cgsa.data.columns import single_precision
from cgsa.data.readers import Reader
from cgsa.data.readers.clock import TIME_UNITS, Clock
from cgsa.data.readers.csv_header import split_cells
from cgsa.data.readers.csv_layout import CsvLayout, sniff_layout, text_encoding
from cgsa.data.readers.csv_rows import read_rows, read_texts
from cgsa.data.readers.damage import parsing
from cgsa.data.readers.mcc5_csv import is_mcc5, read_mcc5
from cgsa.data.readers.uff58 import is_uff58
from cgsa.data.recording import FloatArray
from cgsa.data.signal_file import RATE_TOLERANCE, SignalFile, of_recording
from cgsa.errors import DataError

INDEX_NAME = re.compile(
    r"(?:|#|n|nr|no|index|idx|row|sample|samples|point|counter|unnamed.*|column 1)\.?", re.IGNORECASE
)
"""A whole name of a column that may number the rows."""
LAST_BYTES = 1 << 16


def open_csv(path: Path, array: str | None) -> SignalFile:
    """Return what a CSV file holds; all of it is read once, to find damage before anything is used."""
    if array is not None:
        raise DataError(f"{path}: a CSV file holds a single table; leave out array={array!r}")
    if is_mcc5(path):
        return of_recording(path, "csv", lambda: read_mcc5(path))
    with parsing(path, "CSV"):
        layout = sniff_layout(path)
        notes = [*layout.notes, *_check_last_line(path, layout)]
    numbers = [place for place, kind in enumerate(layout.kinds) if kind == "number"]
    time = layout.time_column
    columns = [*(place for place in numbers if place != time), *([] if time is None else [time])]
    survey = _Survey(path, layout, columns, time)
    for block in read_rows(path, layout, columns):
        survey.add(block)
    if survey.rows < 2:
        raise DataError(f"{path}: {survey.rows} rows of data; expected at least 2")
    used, more = survey.used()
    rate, clock_notes = _agreed(layout.sample_rate, *survey.rate())
    unused = [name for place, name in enumerate(layout.names) if layout.kinds[place] == "text" and place != time]
    notes += [f"column {name!r} has text and is not used" for name in unused]

    def blocks(samples: int) -> Iterator[FloatArray]:
        for block in read_rows(path, layout, used):
            values = single_precision(block)
            for start in range(0, values.shape[1], samples):
                yield values[:, start : start + samples]

    return SignalFile(
        path=path,
        format="csv",
        channels=tuple(layout.names[place] for place in used),
        units=tuple(layout.units[place] for place in used),
        sample_rate=rate,
        samples=survey.rows,
        read=blocks,
        named=layout.named,
        read_texts=lambda names: read_texts(path, layout, [layout.place(path, name) for name in names]),
        notes=(*notes, *more, *clock_notes),
    )


def _agreed(stated: float | None, measured: float | None, notes: list[str]) -> tuple[float | None, list[str]]:
    """Return the sample rate by the lines above the data and by the clock; None if they contradict each other."""
    if stated is None or measured is None:
        return (measured if stated is None else stated), notes
    if abs(measured / stated - 1) > RATE_TOLERANCE:
        return None, [
            *notes,
            f"the lines above the data state {stated:g} Hz, the clock {measured:g} Hz: pass the right one",
        ]
    return stated, notes


class _Survey:
    """What one pass over a file finds: rows, the clock, and columns that are no channels."""

    def __init__(self, path: Path, layout: CsvLayout, columns: list[int], time: int | None) -> None:
        self.rows = 0
        self._path, self._layout, self._columns, self._time = path, layout, columns, time
        self._missing = np.zeros(len(columns), np.int64)
        self._first_missing = [0] * len(columns)
        # A first column without a name may be a clock, and one of many names may number the rows.
        self._first = columns[0] if time is None and columns else None
        place = time if time is not None else self._first
        unit = None if place is None else layout.units[place]
        stamps = place is not None and layout.kinds[place] == "timestamp"
        name = "" if place is None else layout.names[place]
        self._clock = Clock(name, "s" if stamps else unit if unit in TIME_UNITS else None)
        self._row = None if place is None else columns.index(place)

    def add(self, block: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> None:
        bad = ~np.isfinite(block)
        for row in np.flatnonzero(bad.any(axis=1)):
            if not self._missing[row]:
                self._first_missing[row] = self.rows + int(bad[row].argmax())
            self._missing[row] += int(bad[row].sum())
        if self._row is not None:
            self._clock.add(block[self._row])
        self.rows += block.shape[1]

    def used(self) -> tuple[list[int], list[str]]:
        """Return the columns that are channels, and notes on the others."""
        used, notes = [], []
        for row, place in enumerate(self._columns):
            name = self._layout.names[place]
            if self._missing[row] == self.rows:
                notes.append(f"column {name!r} is empty and not used")
            elif place == self._time:
                continue
            elif place == self._first and self._clock.counts_rows and INDEX_NAME.fullmatch(name):
                notes.append(f"column {name!r} numbers the rows and is not used")
            elif place == self._first and self._is_unnamed_clock():
                continue
            else:
                used.append(place)
                if self._missing[row]:
                    where = self._layout.row(self._first_missing[row] + 1)
                    notes.append(f"column {name!r} has {self._missing[row]} cells without a number, first at {where}")
        if not used:
            raise DataError(f"{self._path}: has no column of numbers besides the time")
        return used, notes

    def rate(self) -> tuple[float | None, list[str]]:
        """Return the sample rate by the clock, if there is one."""
        if self._time is not None or self._is_unnamed_clock():
            return self._clock.rate()
        return None, []

    def _is_unnamed_clock(self) -> bool:
        """Return whether the first column of a file without a header rises in steps as even as a clock's."""
        if self._layout.named or self._first is None or len(self._columns) < 2 or self._clock.counts_rows:
            return False
        rate, _ = self._clock.rate()
        return rate is not None and self._clock.is_steady


def _check_last_line(path: Path, layout: CsvLayout) -> list[str]:
    """Refuse a file whose last number may be cut; note a last line that only lacks its end."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - LAST_BYTES) & ~1)
        tail = file.read()
    text = tail.decode(layout.encoding if not layout.encoding.endswith("16") else _by_bom(path), errors="replace")
    if text.endswith(("\n", "\r", "\x1a")):
        return []
    lines = [split_cells(line, layout.delimiter) for line in text.splitlines()]
    last, before = lines[-1], [cells for cells in lines[1:-1] if len(cells) == len(layout.names)][-200:]
    if len(last) == len(layout.names) and before:
        shape, shapes = _digits(last[-1]), [_digits(cells[-1]) for cells in before]
        if shape[0] and shape[0] >= min(fraction for fraction, _ in shapes) and shape[1] in {e for _, e in shapes}:
            return ["the last line has no line end, but as many digits as the others"]
    raise DataError(
        f"{path}: the file may be truncated in its last line, in column {len(last)} of {len(layout.names)}: it has no "
        f"line end; export it again, or add the line end if the line is complete"
    )


def _digits(cell: str) -> tuple[int, int]:
    """Return the number of decimals and of characters of the exponent."""
    number, _, exponent = cell.lower().partition("e")
    return len(re.split("[.,]", number)[-1]) if re.search("[.,]", number) else 0, len(exponent)


def _by_bom(path: Path) -> str:
    """Return the encoding of a file of UTF-16 without its first bytes."""
    with path.open("rb") as file:
        return "utf-16-le" if file.read(2) == b"\xff\xfe" else "utf-16-be"


def _is_text(head: bytes) -> bool:
    """Return whether bytes are a text, but not one of the format that has a reader of its own."""
    return text_encoding(head) is not None and not is_uff58(head)


READER = Reader(suffixes=(".csv", ".txt", ".tsv", ".asc", ".dat"), accepts=_is_text, open=open_csv)
