"""Parquet files of other programs: columns of numbers, with units and rate in the metadata if they are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute, parquet

from cgsa.data.columns import single_precision
from cgsa.data.readers.arrays import RATE_NAMES
from cgsa.data.readers.clock import TIME_NAME, TIME_UNITS, Clock
from cgsa.data.readers.csv_header import name_and_unit
from cgsa.data.readers.damage import CURE, parsing
from cgsa.data.recording import FloatArray
from cgsa.data.signal_file import SignalFile, TextColumn
from cgsa.data.units import normalise_unit
from cgsa.errors import DataError

BATCH_ROWS = 65_536
MAX_RATIO = 1000
"""Values per byte of the file; more is damage, or a constant that nobody measured."""


def open_columns(path: Path) -> SignalFile:
    """Return what a Parquet file holds: its columns of numbers, and the clock among its columns."""
    with parsing(path, "Parquet"), parquet.ParquetFile(path) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
    if not 2 <= rows <= MAX_RATIO * path.stat().st_size:
        raise DataError(f"{path}: states {rows} rows in {path.stat().st_size} bytes; expected at least 2; {CURE}")
    pairs = {field.name: name_and_unit(field.name) for field in schema}
    time = next(
        (
            field
            for field in schema
            if pa.types.is_timestamp(field.type)
            or (_is_number(field.type) and TIME_NAME.fullmatch(pairs[field.name][0]))
        ),
        None,
    )
    clock = time.name if time is not None else None
    used = [field for field in schema if _is_number(field.type) and field.name not in {"__index_level_0__", clock}]
    if not used:
        raise DataError(f"{path}: holds no column of numbers besides the time; it has {', '.join(schema.names)}")
    notes = [
        f"column {field.name!r} ({field.type}) is not used"
        for field in schema
        if field not in used and field.name != clock
    ]
    stated = {
        key.decode(errors="replace"): value.decode(errors="replace") for key, value in (schema.metadata or {}).items()
    }
    rate, more = _stated_rate(stated)
    if rate is None and time is not None:
        unit = "s" if pa.types.is_timestamp(time.type) else pairs[time.name][1] or _field_unit(time)
        rate, more = _clock_rate(path, time.name, unit)

    def blocks(samples: int) -> Iterator[FloatArray]:
        names = [field.name for field in used]
        for batch in _batches(path, names, samples):
            yield np.stack([single_precision(batch[name]) for name in names])

    return SignalFile(
        path=path,
        format="parquet",
        channels=tuple(pairs[field.name][0] for field in used),
        units=tuple(pairs[field.name][1] or _field_unit(field) for field in used),
        sample_rate=rate,
        samples=rows,
        read=blocks,
        read_texts=partial(_texts, path, schema.names, {name: pair[0] for name, pair in pairs.items()}),
        notes=(*notes, *more),
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _field_unit(field: pa.Field) -> str | None:
    """Return the unit in the metadata of a column."""
    unit = next(
        ((field.metadata or {}).get(key) for key in (b"unit", b"units") if (field.metadata or {}).get(key)), None
    )
    return normalise_unit(unit.decode(errors="replace")) if unit else None


def _stated_rate(stated: Mapping[str, str]) -> tuple[float | None, list[str]]:
    for key, value in stated.items():
        if RATE_NAMES.fullmatch(key):
            try:
                rate = float(value)
            except ValueError:
                continue
            if 0 < rate < float("inf"):
                return rate, [f"sample rate {rate:.9g} Hz from the metadata entry {key!r}"]
    return None, []


def _clock_rate(path: Path, name: str, unit: str | None) -> tuple[float | None, list[str]]:
    clock = Clock(name_and_unit(name)[0], unit if unit in TIME_UNITS else None)
    for batch in _batches(path, [name], BATCH_ROWS):
        clock.add(batch[name])
    return clock.rate()


def _texts(
    path: Path, columns: Sequence[str], short: Mapping[str, str], names: Sequence[str]
) -> Iterator[list[TextColumn]]:
    """Yield the cells of columns, which are found by their names with or without a unit, as text."""
    found = [next((column for column in columns if name in {column, short[column]}), None) for name in names]
    chosen = [column for column in found if column is not None]
    if len(chosen) < len(names):
        raise DataError(f"{path}: no column {names[found.index(None)]!r}; it has {', '.join(columns)}")
    with parsing(path, "Parquet"), parquet.ParquetFile(path, page_checksum_verification=True) as file:
        for batch in file.iter_batches(BATCH_ROWS, columns=chosen):
            cells = [compute.fill_null(compute.cast(batch.column(name), pa.string()), "") for name in chosen]
            yield [np.asarray(column.to_numpy(zero_copy_only=False), object) for column in cells]


def _batches(path: Path, names: list[str], rows: int) -> Iterator[dict[str, npt.NDArray[np.float64]]]:
    """Yield the columns in double precision; cells without a number are NaN, time stamps are seconds."""
    origin: int | None = None
    with parsing(path, "Parquet"), parquet.ParquetFile(path, page_checksum_verification=True) as file:
        for batch in file.iter_batches(rows, columns=names):
            columns = {}
            for name in names:
                column = batch.column(name)
                if pa.types.is_timestamp(column.type):
                    counts = (
                        column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64()).to_numpy(zero_copy_only=False)
                    )
                    origin = int(counts[0]) if origin is None else origin
                    columns[name] = np.asarray(counts - origin, np.float64) * 1e-9
                else:
                    columns[name] = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
            yield columns
