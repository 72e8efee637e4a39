"""Reader for the CSV files of the MCC5-THU data sets, in any of their layouts."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from cgsa.data.columns import Column, column_chunks
from cgsa.data.mcc5.files import Mcc5FileName
from cgsa.data.mcc5.recordings import (
    GEARBOX_CHANNELS,
    GEARBOX_COLUMNS,
    MOTOR_CHANNELS,
    MOTOR_COLUMNS,
    check_time_column,
    gearbox_recording,
    is_time_column,
    motor_recording,
)
from cgsa.data.readers import HEAD_BYTES
from cgsa.data.recording import Recording
from cgsa.data.run import SAMPLE_RATE
from cgsa.errors import DataError

MIN_ROWS = 1024
"""A shorter recording does not fill one window of the paper."""
MAX_HEADER_BYTES = 1 << 16


@dataclass(frozen=True)
class _Layout:
    """The columns of one file."""

    names: tuple[str, ...]
    """Name of each column; ``column 1`` and so on in files without a header."""
    header: bool

    def row(self, number: int) -> str:
        """Return the name of a data row, counted from 1, with its line in an editor."""
        return f"row {number} (line {number + self.header})"


def is_mcc5(path: Path) -> bool:
    """Return whether a file has the columns of a gearbox or motor file, or the name of one.

    A gearbox file with a missing or renamed column gets an error of its own, so that half of its names are enough.
    """
    layout = _layout(path)
    if len(layout.names) > 1 and _is_run_name(path.name):
        return True
    if not layout.header:
        return len(layout.names) in {8, 9} and _starts_like_a_motor_file(path)
    kinds = [next((kind for kind in ("torque", "vib", "current") if kind in name), "") for name in layout.names]
    like_motor = min(kinds.count("torque"), 1) + min(kinds.count("vib"), 3) + min(kinds.count("current"), 3)
    return like_motor >= 6 or _is_gearbox(layout)


def channels_of(path: Path) -> tuple[str, ...]:
    """Return the channels that an MCC5-THU file has by its header or its first lines; empty if they do not tell."""
    layout = _layout(path)
    if layout.header:
        like_motor = any("current" in name for name in layout.names)
        return MOTOR_CHANNELS if like_motor else GEARBOX_CHANNELS if _is_gearbox(layout) else ()
    return MOTOR_CHANNELS if len(layout.names) in {8, 9} and _starts_like_a_motor_file(path) else ()


def read_mcc5(path: Path) -> Recording:
    """Return the recording in an MCC5-THU file."""
    layout = _layout(path)
    _refuse_truncated(path, layout)
    like_motor = not layout.header or any("current" in name for name in layout.names)
    read = _read_motor if like_motor else _read_gearbox
    # Numbers beyond float32 became infinite and are found only here.
    return read(path, layout).require_finite()


def _is_gearbox(layout: _Layout) -> bool:
    return sum(_closest(name, GEARBOX_COLUMNS) is not None for name in layout.names) >= len(GEARBOX_COLUMNS) // 2


def _is_run_name(name: str) -> bool:
    try:
        Mcc5FileName.parse(name)
    except DataError:
        return False
    return True


def _starts_like_a_motor_file(path: Path) -> bool:
    """Return whether the first column is a clock of the rate of the data set."""
    with path.open("rb") as file:
        lines = file.read(HEAD_BYTES).decode("utf-8-sig", errors="replace").split("\n")[:-1]
    try:
        steps = np.diff([float(line.partition(",")[0]) for line in lines])
    except ValueError:
        return False
    return steps.size > 1 and bool(abs(np.median(steps) * SAMPLE_RATE - 1) < 0.02)


def _read_gearbox(path: Path, layout: _Layout) -> Recording:
    _require_columns(path, layout, GEARBOX_COLUMNS)
    # Torque is scaled, which reaches every float32 only in double precision; the other columns are used unchanged.
    types = {name: pa.float64() if name in {"torque", "time"} else pa.float32() for name in layout.names}
    used = [name for name in layout.names if name in {*GEARBOX_COLUMNS, "time"}]
    columns = _read_columns(path, layout, types, used)
    for name in used:
        _require_numbers(path, layout, name, columns[name])
    notes = [f"column {name!r} is not used" for name in layout.names if name not in used]
    if "time" in columns:
        notes += check_time_column(columns["time"], str(path))
    recording = gearbox_recording([columns[name] for name in GEARBOX_COLUMNS], name=path.name, source=_source(path))
    return replace(recording, notes=(*notes, *recording.notes))


def _read_motor(path: Path, layout: _Layout) -> Recording:
    if layout.header:
        _require_motor_order(path, layout)
    elif len(layout.names) not in {8, 9}:
        raise DataError(
            f"{path}: {len(layout.names)} columns without a header; a motor file has 9: "
            f"time, {', '.join(MOTOR_COLUMNS)}"
        )
    columns = _read_columns(path, layout, dict.fromkeys(layout.names, pa.float64()), layout.names)
    *most, last = layout.names
    for name in most:
        _require_numbers(path, layout, name, columns[name])
    if not np.isnan(np.asarray(columns[last])).all():
        _require_numbers(path, layout, last, columns[last])
    if not layout.header and len(layout.names) == 8 and not is_time_column(columns[layout.names[0]]):
        raise DataError(
            f"{path}: 8 columns without a header and without a time column; gearbox and motor files look "
            f"alike then, so add the header: {','.join(GEARBOX_COLUMNS)} or {','.join(MOTOR_COLUMNS)}"
        )
    return motor_recording(list(columns.values()), name=path.name, source=_source(path))


def _source(path: Path) -> str:
    # The leak check compares sources, so that every path to a file must give the same name.
    return str(path.resolve())


def _layout(path: Path) -> _Layout:
    with path.open("rb") as file:
        first = file.readline(MAX_HEADER_BYTES).decode("utf-8-sig", errors="replace")
    cells = [cell.strip().strip('"') for cell in first.split(",")]
    if all(_is_number(cell) for cell in cells):
        return _Layout(tuple(f"column {place}" for place in range(1, len(cells) + 1)), header=False)
    # pyarrow selects columns by name, so that even unnamed ones need a unique name.
    names = tuple(cell.lower() or f"column {place}" for place, cell in enumerate(cells, start=1))
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(f"{path}: the header repeats {', '.join(map(repr, repeated))}")
    return _Layout(names, header=True)


def _read_columns(path: Path, layout: _Layout, types: dict[str, pa.DataType], used: Sequence[str]) -> dict[str, Column]:
    """Return the used columns; empty cells are NaN."""
    try:
        table = csv.read_csv(
            path,
            csv.ReadOptions(column_names=layout.names, skip_rows=int(layout.header)),
            convert_options=csv.ConvertOptions(column_types=types, include_columns=used),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise DataError(_first_bad_row(path, layout) or f"{path}: cannot read it as CSV: {error}") from error
    if table.num_rows < MIN_ROWS:
        raise _too_short(path, table.num_rows)
    return {name: table[name] for name in used}


def _too_short(path: Path, rows: int) -> DataError:
    return DataError(f"{path}: {rows} rows of data; expected at least {MIN_ROWS}")


def _require_numbers(path: Path, layout: _Layout, name: str, column: Column) -> None:
    # A sum is one fast pass and reveals any NaN; only a column with a suspicious sum is searched.
    with np.errstate(over="ignore", invalid="ignore"):
        if all(np.isfinite(chunk.sum()) for chunk in column_chunks(column)):
            return
    bad = ~np.isfinite(np.asarray(column))
    if bad.any():
        raise DataError(
            f"{path}: column {name!r} has {int(bad.sum())} NaN or infinite values, "
            f"first at {layout.row(int(bad.argmax()) + 1)}; repair them or remove the file"
        )


def _require_columns(path: Path, layout: _Layout, expected: Sequence[str]) -> None:
    missing = [name for name in expected if name not in layout.names]
    if not missing:
        return
    unmatched = [name for name in layout.names if name not in expected]
    hints = [f"{near!r} instead of {name!r}" for name in missing if (near := _closest(name, unmatched))]
    raise DataError(
        f"{path}: no column {', '.join(map(repr, missing))}"
        + (f" (is it {', '.join(hints)}?)" if hints else "")
        + f"; found {', '.join(layout.names)}; expected {', '.join(expected)}; correct the header"
    )


def _require_motor_order(path: Path, layout: _Layout) -> None:
    """Check the order of the columns in a motor file with a header; copies spell the names differently."""
    kinds = [next((kind for kind in ("torque", "vib", "current") if kind in name), "") for name in layout.names]
    signals = kinds[layout.names[0] == "time" :]
    if signals != ["", "torque", *["vib"] * 3, *["current"] * 3]:
        _require_columns(path, layout, MOTOR_COLUMNS)
        raise DataError(f"{path}: columns are {', '.join(layout.names)}; expected the order {', '.join(MOTOR_COLUMNS)}")


def _refuse_truncated(path: Path, layout: _Layout) -> None:
    """Refuse a file whose last line is incomplete: its writing was interrupted."""
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) in b"\r\n":
            return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1 - layout.header):
            row, cells = number, line.count(b",") + 1
    if row == 0:
        raise _too_short(path, 0)
    raise DataError(
        f"{path}: the file is truncated in {layout.row(row)}, in column {cells} of {len(layout.names)}: "
        f"its last line has no line end; download it again, or add the line end if the line is complete"
    )


def _first_bad_row(path: Path, layout: _Layout) -> str | None:
    """Locate the first row that is not one of numbers; slow, and only for files that cannot be read."""
    with path.open(encoding="utf-8", errors="replace") as file:
        lines = (line.rstrip("\r\n") for line in file)
        if layout.header:
            next(lines)
        for number, line in enumerate(lines, start=1):
            cells = line.split(",") if line else layout.names
            if len(cells) != len(layout.names):
                return f"{path}: {layout.row(number)} has {len(cells)} columns; expected {len(layout.names)}" + (
                    "" if any(lines) else "; it is the last row, so the file seems to be truncated"
                )
            for name, cell in zip(layout.names, cells, strict=True):
                if line and not _is_number(cell):
                    return f"{path}: column {name!r} has {cell!r} in {layout.row(number)}; expected a number"
    return None


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True


def _closest(name: str, names: Sequence[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=0.75)), None)
