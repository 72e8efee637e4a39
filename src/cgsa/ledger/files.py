"""A ledger on disk: a folder with ``ledger.json`` and numbered Parquet files.

A Parquet file is readable only once its end is written, so a single file that
grows with the stream would be lost if the process died. The writer therefore
starts a new file every few thousand windows and names it only once it is complete
and on the disk. A killed stream loses only the windows after its last file.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from pyarrow import csv, dataset, parquet

from cgsa.config import as_table, bind
from cgsa.errors import ConfigError, DataError
from cgsa.files import replacing
from cgsa.ledger.columns import Column, Columns, LabelColumn, LedgerInfo, join_column
from cgsa.ledger.parts import PART, LedgerParts
from cgsa.ledger.query import Comparison, parse_where

FORMAT = "cgsa-ledger"
VERSION = 1
MANIFEST = "ledger.json"
ROWS_PER_PART = 65_536
"""About 1.5 MB, or 82 s of signal at the paper's rate and step: the most that a killed process loses."""

LABELS = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    {
        "window": pa.int64(),
        "time": pa.float64(),
        "source": LABELS,
        "verdict": LABELS,
        "confidence": pa.float32(),
        "accepted": pa.bool_(),
        "reason": LABELS,
    }
)
"""Columns of every ledger."""

_OPERATORS = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


class LedgerWriter:
    """Writes a ledger while a stream runs; a context manager that writes the last rows on exit.

    The folder must be empty or absent, since a ledger is never overwritten. ``rows_per_part`` windows are buffered in
    memory and become one file.
    """

    def __init__(self, folder: Path, about: LedgerInfo, *, rows_per_part: int = ROWS_PER_PART) -> None:
        if folder.exists() and not folder.is_dir():
            raise DataError(f"{folder}: is a file; a ledger is a folder")
        if folder.is_dir() and any(folder.iterdir()):
            what = "holds a ledger already" if (folder / MANIFEST).exists() else "is not empty"
            raise DataError(f"{folder}: {what}; choose another folder for the ledger")
        self.folder = folder
        self.windows = 0
        """Number of windows added."""
        self._about = as_table(about)
        self._rows_per_part = rows_per_part
        self._held: list[Columns] = []
        self._rows_held = 0
        self._parts = 0

    def add(self, columns: Columns) -> None:
        """Add rows; they are on the disk once their file is full or the context ends."""
        if not self.windows:
            # Written only now, so that a stream that fails before its first window leaves the folder free for a retry.
            self._write_manifest(None)
        # All rows of a file have the same columns: if a method starts or stops giving evidence, a new file begins.
        if self._held and self._held[0].keys() != columns.keys():
            self._write_part()
        self._held.append(columns)
        self._rows_held += len(columns["window"])
        self.windows += len(columns["window"])
        if self._rows_held >= self._rows_per_part:
            self._write_part()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Keep the rows added so far, whatever stopped the stream.
        if self._held:
            self._write_part()
        if kind is None:
            self._write_manifest(self.windows)

    def _write_part(self) -> None:
        # Converted to Arrow once per file: for a few rows at a time, the conversion costs more than the data.
        table = _to_table({name: join_column([columns[name] for columns in self._held]) for name in self._held[0]})
        encoding = {
            field.name: "BYTE_STREAM_SPLIT" if pa.types.is_floating(field.type) else "DELTA_BINARY_PACKED"
            for field in table.schema
            if field.type != LABELS and not pa.types.is_boolean(field.type)
        }
        labelled = [field.name for field in table.schema if field.type == LABELS]
        with replacing(self.folder / PART.format(self._parts), DataError) as fresh:
            parquet.write_table(
                table,
                fresh,
                compression="zstd",
                use_dictionary=labelled,
                column_encoding=encoding,
                write_page_checksum=True,
            )
        self._parts += 1
        self._held, self._rows_held = [], 0

    def _write_manifest(self, windows: int | None) -> None:
        text = {"format": FORMAT, "version": VERSION, "about": self._about, "windows": windows}
        with replacing(self.folder / MANIFEST, DataError) as fresh:
            fresh.write_text(json.dumps(text, indent=1), encoding="utf-8")


class Ledger:
    """A ledger that a :class:`LedgerWriter` wrote, finished or not; it loads only the rows that are requested.

    Files that are missing or damaged are left out; :attr:`lost` names them.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.about, windows = _read_manifest(self.folder)
        self.finished = windows is not None
        """Whether the stream ended normally."""
        with _reading(self.folder):
            self._parts = LedgerParts(self.folder, SCHEMA)
            self._rows = int(self.dataset.count_rows())
        if windows is not None and self._rows < windows and not self._parts.lost:
            self._parts.lost.append(f"{windows - self._rows} of {windows} windows: the last files are missing")

    @property
    def dataset(self) -> Any:
        """All rows of intact files as a pyarrow dataset."""
        return self._parts.dataset

    @property
    def lost(self) -> tuple[str, ...]:
        """What is missing or damaged, with its period; a file that is damaged inside is noticed when it is read."""
        return tuple(self._parts.lost)

    def __len__(self) -> int:
        return self._rows

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns, evidence last."""
        return tuple(self.dataset.schema.names)

    def count(self, where: str = "") -> int:
        """Return the number of windows that match ``where``."""
        if not where.strip():
            return self._rows
        return sum(batch.num_rows for batch in self._scan(where, ["window"]))

    def batches(self, where: str = "", columns: Sequence[str] | None = None) -> Iterator[Columns]:
        """Yield the windows that match ``where`` in stream order, some thousands at a time."""
        for batch in self._scan(where, columns):
            yield {
                name: _from_arrow(column)
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
                if column.null_count < len(column)
            }

    def export(self, path: Path, where: str = "") -> int:
        """Write the windows that match ``where`` to one CSV or Parquet file; return their number."""
        writers = {".csv": csv.CSVWriter, ".parquet": parquet.ParquetWriter}
        if path.suffix not in writers:
            raise ConfigError(f"{path}: a ledger is exported as {' or '.join(writers)}")
        plain = pa.schema([(field.name, _plain(field.type)) for field in self.dataset.schema])
        rows = 0
        with replacing(path, DataError) as fresh, writers[path.suffix](fresh, plain) as writer:
            for batch in self._scan(where):
                writer.write_table(pa.Table.from_batches([batch]).cast(plain))
                rows += batch.num_rows
        return rows

    def _scan(self, where: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        return self._parts.scan(None if columns is None else list(columns), self._expression(where))

    def _expression(self, where: str) -> Any:
        """Return the condition as a pyarrow expression; None if it is empty."""
        chosen = None
        for comparison in parse_where(where) if where.strip() else ():
            one = _compare(comparison, self.dataset.schema)
            chosen = one if chosen is None else chosen & one
        return chosen


def _to_table(columns: Columns) -> pa.Table:
    rows = len(columns["window"])
    fixed = {field.name: _to_arrow(columns.get(field.name), field.type, rows) for field in SCHEMA}
    evidence = {name: _to_arrow(columns[name], pa.float32(), rows) for name in columns if name not in fixed}
    return pa.table(fixed | evidence)


def _to_arrow(column: Column | None, kind: pa.DataType, rows: int) -> pa.Array:
    if column is None:
        return pa.nulls(rows, kind)
    if isinstance(column, LabelColumn):
        return pa.DictionaryArray.from_arrays(pa.array(column.codes, pa.int32()), pa.array(column.labels, pa.string()))
    return pa.array(column, kind)


def _from_arrow(column: pa.Array) -> Column:
    if column.type == LABELS:
        return LabelColumn(column.indices.to_numpy(), tuple(column.dictionary.to_pylist()))
    if pa.types.is_boolean(column.type):
        column = column.fill_null(False)
    # Evidence that only some files have is NaN for the windows of the others.
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type for export: labels as text, since not every program reads dictionary columns."""
    return pa.string() if kind == LABELS else kind


def _compare(comparison: Comparison, schema: pa.Schema) -> Any:
    name, value = comparison.column, comparison.value
    if name not in schema.names:
        near = difflib.get_close_matches(name, schema.names, n=1)
        hint = f" did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"the ledger has no column {name!r};{hint} it has {', '.join(schema.names)}")
    kind = schema.field(name).type
    if kind == LABELS:
        fits, expected = isinstance(value, str), "a 'text'"
    elif pa.types.is_boolean(kind):
        fits, expected = isinstance(value, bool), "true or false"
    else:
        fits, expected = isinstance(value, float), "a number"
    if not fits:
        raise ConfigError(f"column {name!r} is compared with {expected}, not with {value!r}")
    if not isinstance(value, float) and comparison.operator not in {"==", "!="}:
        raise ConfigError(f"column {name!r} has no order; expected == or != instead of {comparison.operator}")
    # Rounded like the values of the column, so that a value copied from the output matches its row.
    literal = pa.scalar(value, kind if kind == pa.float32() else None)
    return _OPERATORS[comparison.operator](dataset.field(name), literal)


def _read_manifest(folder: Path) -> tuple[LedgerInfo, int | None]:
    """Return method and model of a ledger, and its number of windows if it is finished."""
    path = folder / MANIFEST
    if not path.is_file():
        raise DataError(f"{folder}: no ledger here (no {MANIFEST}); cgsa watch --ledger {folder} writes one")
    try:
        text = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON ({error})") from error
    if not isinstance(text, dict) or text.get("format") != FORMAT:
        raise DataError(f"{path}: no {FORMAT} manifest")
    if text.get("version") != VERSION:
        raise DataError(f"{path}: ledger version {text.get('version')!r}; this cgsa reads version {VERSION}")
    about, windows = text.get("about"), text.get("windows")
    if not isinstance(about, dict) or not isinstance(windows, int | None):
        raise DataError(f"{path}: 'about' is no table or 'windows' no number; the file was damaged")
    return bind(LedgerInfo, about, f"{path}: about", DataError), windows


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot read it as Parquet: {error}; it may be cut off") from error
