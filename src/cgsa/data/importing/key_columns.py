"""Tables whose columns say what their rows are: recordings begin where such a column changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from cgsa.data.importing.plan import FoundRecording
from cgsa.data.read_options import ReadOptions
from cgsa.data.readers import open_signal
from cgsa.data.recording import FloatArray, Recording
from cgsa.data.signal_file import SignalFile, TextColumn
from cgsa.errors import ConfigError, DataError

SHORTEST = 16
"""Rows; a column that changes more often on average says nothing about recordings."""
MAX_STEPS = 1000
"""A condition that changes more often was measured; otherwise it was set, and recordings begin where it changes."""


@dataclass(frozen=True)
class KeyColumns:
    """Names of the columns that hold the class, the unit and the run of each row."""

    label: str
    unit: str | None = None
    run: str | None = None

    def __post_init__(self) -> None:
        if len(set(self.names)) < len(self.names):
            raise ConfigError(f"columns {', '.join(self.names)}: expected another one for each of class, unit and run")

    @property
    def names(self) -> list[str]:
        """Names of the columns that are given."""
        return [name for name in (self.label, self.unit, self.run) if name is not None]


def recordings_in(path: Path, keys: KeyColumns, options: ReadOptions) -> tuple[list[FoundRecording], tuple[str, ...]]:
    """Return the recordings in a table, in the order of their rows, and notes on how it was divided."""
    file = open_signal(path, array=options.array)
    if file.read_texts is None:
        raise DataError(f"{path}: a {file.format} file has no columns of text; --class-column reads CSV and Parquet")
    levels = [name for name in options.conditions if name not in keys.names]
    changes = _Changes(path, keys.names, levels)
    for block in file.read_texts([*keys.names, *levels]):
        changes.add(block)
    segments, unlabelled = changes.segments()
    if not segments:
        raise DataError(f"{path}: no row has a {keys.label}; expected the class of each recording")
    found = []
    for rows, values in segments:
        said = dict(zip(keys.names, values, strict=True))
        unit, run = said.get(keys.unit or ""), said.get(keys.run or "")
        found.append(FoundRecording(path, said[keys.label], unit=unit, run=run, rows=rows))
    notes = [f"{len(found)} recordings, each until {' or '.join([*keys.names, *changes.stepped])} changes"]
    notes += [f"{unlabelled} rows without {' or '.join(keys.names)} are left out"] if unlabelled else []
    return found, tuple(f"{path.name}: {note}" for note in notes)


class _Changes:
    """Where columns change, block by block."""

    def __init__(self, path: Path, keys: Sequence[str], levels: Sequence[str]) -> None:
        self._path, self._keys, self._levels = path, list(keys), list(levels)
        self._rows = 0
        self._last: dict[str, str] = {}
        self._values: dict[int, list[str]] = {}
        """What the keys hold from a row on."""
        self._steps: dict[str, list[int] | None] = {name: [] for name in levels}
        """Rows from which a condition has another value; None if it was measured."""

    @property
    def stepped(self) -> list[str]:
        """Conditions that change, and keep their value for long."""
        return [name for name, steps in self._steps.items() if steps is not None and len(steps) > 1]

    def add(self, block: Sequence[TextColumn]) -> None:
        """Add rows: one column of texts for each key, and then for each condition."""
        names = [*self._keys, *self._levels]
        changed = {name: self._changed(name, column) for name, column in zip(names, block, strict=True)}
        for row in sorted({row for name in self._keys for row in changed[name]}):
            self._values[self._rows + row] = [str(column[row]) for column in block[: len(self._keys)]]
        for name, steps in self._steps.items():
            if steps is not None:
                steps += [self._rows + row for row in changed[name][: MAX_STEPS + 1]]
                self._steps[name] = steps if len(steps) <= MAX_STEPS else None
        self._rows += len(block[0])
        if len(self._values) > MAX_STEPS:
            self._require_few()

    def segments(self) -> tuple[list[tuple[tuple[int, int], list[str]]], int]:
        """Return first row, the one behind the last, and the keys of each segment; and the number of rows without."""
        self._require_few()
        starts = {*self._values, *(row for name in self.stepped for row in self._steps[name] or ())}
        found, unlabelled, values = [], 0, list[str]()
        for start, stop in pairwise([*sorted(starts), self._rows]):
            values = self._values.get(start, values)
            if all(values):
                found.append(((start, stop), values))
            else:
                unlabelled += stop - start
        return found, unlabelled

    def _changed(self, name: str, column: TextColumn) -> list[int]:
        """Return the rows of a block at which a column has another value than before."""
        rows = [int(row) + 1 for row in np.flatnonzero(column[1:] != column[:-1])]
        if self._last.get(name) != column[0]:
            rows = [0, *rows]
        self._last[name] = column[-1]
        return rows

    def _require_few(self) -> None:
        if len(self._values) * SHORTEST > max(self._rows, SHORTEST):
            raise DataError(
                f"{self._path}: {', '.join(self._keys)} changes {len(self._values) - 1} times in {self._rows} rows; "
                f"expected the rows of a recording one after the other"
            )


class RowsReader:
    """Reads recordings that are rows of tables; one after the other, each table is read once."""

    def __init__(self, keys: KeyColumns, options: ReadOptions) -> None:
        self._keys, self._options = keys, options
        self._table: _Table | None = None

    def read(self, found: FoundRecording) -> Recording:
        """Return the recording in some rows of a file."""
        if found.rows is None:
            raise DataError(f"{found.path}: expected the rows of a recording")
        table = self._table
        if table is None or table.file.path != found.path:
            table = self._table = _Table(self._without_key_notes(open_signal(found.path, array=self._options.array)))
        options = self._options
        if options.channels is None:
            taken = {*self._keys.names, *options.conditions}
            options = replace(options, channels=[name for name in table.file.channels if name not in taken])
        start, stop = found.rows
        recording = options.read_file(table.part(start, stop))
        # Counted in samples of the recording, which may have been resampled.
        return replace(recording, offset=round(start * recording.samples / (stop - start)))

    def _without_key_notes(self, file: SignalFile) -> SignalFile:
        """Return the file without the notes that its columns of keys are not used."""
        keys = tuple(f"column {name!r} " for name in self._keys.names)
        return replace(file, notes=tuple(note for note in file.notes if not note.startswith(keys)))


class _Table:
    """Reads rows of a file; the next rows are read on from where the last ones ended."""

    def __init__(self, file: SignalFile) -> None:
        self.file = file
        self._blocks: Iterator[FloatArray] = iter(())
        self._row = file.samples
        """Row with which what is held begins, or else what comes next."""
        self._held: FloatArray | None = None

    def part(self, start: int, stop: int) -> SignalFile:
        """Return some rows of the file as a file."""
        return replace(self.file, samples=stop - start, read=lambda size: _sized(self._rows(start, stop), size))

    def _rows(self, start: int, stop: int) -> Iterator[FloatArray]:
        if start < self._row:
            self._blocks, self._held, self._row = self.file.blocks(), None, 0
        while self._row < stop:
            block = self._held if self._held is not None else next(self._blocks, None)
            if block is None:
                return
            first, last = max(start - self._row, 0), min(stop - self._row, block.shape[1])
            # What is behind the part is the beginning of the next one.
            self._held = block[:, last:] if last < block.shape[1] else None
            self._row += last
            if first < last:
                yield block[:, first:last]


def _sized(blocks: Iterator[FloatArray], size: int) -> Iterator[FloatArray]:
    for block in blocks:
        for start in range(0, block.shape[1], size):
            yield block[:, start : start + size]
