"""Writes the results of a watch to the store, and the waveform around each alarm once enough signal has followed."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from cgsa.errors import DataError
from cgsa.events import AlarmChange, Case, Comment, Diagnosis, Label, Note
from cgsa.ledger.columns import Columns
from cgsa.live.intake.block import Block
from cgsa.live.journal import Journal
from cgsa.live.segments import Entry, LostRecords
from cgsa.live.store import Snippet, Store, StoredDiagnosis
from cgsa.live.watch import COMMAND, Watch, WatchResult


class ResultWriter:
    """Writes the results of one machine.

    The journal holds the signal; ``before`` and ``after`` are the seconds of signal to keep around an alarm.
    """

    def __init__(self, machine: str, journal: Journal, store: Store, *, before: float, after: float) -> None:
        self.machine = machine
        self._journal, self._store = journal, store
        self._before, self._after = before, after
        self.diagnosis: Diagnosis | None = None
        """The newest diagnosis; None before the first."""
        self._pending: dict[int, tuple[float, int]] = {}
        """Time and case number of alarms without a snippet, by the position of the entry that raised them."""

    def write(self, entry: Entry, result: WatchResult) -> None:
        """Write what an entry of the journal led to; if this raises, all of it can be written again."""
        self._store.check_room()
        add_results(self._store, self.machine, entry.position, result)
        for event in result.events:
            if isinstance(event, Diagnosis):
                self.diagnosis = event
            elif isinstance(event, AlarmChange) and event.notify:
                self._pending.setdefault(entry.position, (event.time, event.case.number))

    def continued_numbers(self) -> tuple[int, Case | None]:
        """Return the number of the next batch and the newest case, for a watch that starts afresh."""
        self._store.flush()
        with self._store.read() as snapshot:
            return snapshot.next_batch(self.machine), snapshot.newest_case(self.machine)

    def flush(self) -> None:
        """Wait until everything written so far survives a kill and a power failure."""
        self._store.flush()

    def resume_snippets(self) -> None:
        """Request the snippets that an earlier process left undone and whose signal is still in the journal."""
        with self._store.read() as snapshot:
            for position, time, case in snapshot.alarms_without_snippet(self.machine, self._journal.begin):
                self._pending.setdefault(position, (time, case))

    def write_snippets(self, watch: Watch, end: int) -> None:
        """Write the snippets whose signal is complete after the watch has processed the entries before ``end``."""
        seconds = 0.0 if watch.latest is None else watch.latest.seconds
        for position, (time, case) in tuple(self._pending.items()):
            if watch.now >= time + self._after:
                snippet = self._cut(time, position, case, end, seconds)
                if snippet is not None:
                    self._store.check_room()
                    self._store.add(position, 0, snippet)
                del self._pending[position]

    def _cut(self, time: float, position: int, case: int, end: int, block_seconds: float) -> Snippet | None:
        """Read the waveform around a time from the journal; return None if nothing of it is left."""
        reach = 2 + int(self._before / max(block_seconds, 1e-3))
        begin = max(self._journal.begin, position - 2 * reach)
        blocks: list[Block] = []
        for entry in self._journal.read(begin):
            if entry.end > end:
                break
            block = _read_block(entry)
            if block is None or block.time + block.seconds <= time - self._before or block.time >= time + self._after:
                continue
            if not blocks or block.channels == blocks[0].channels:
                blocks.append(block)
        if not blocks:
            return None
        samples = np.concatenate([block.samples for block in blocks], axis=1)
        return Snippet(self.machine, blocks[0].time, case, blocks[0].sample_rate, blocks[0].channels, samples)


class ResultRows(Protocol):
    """Takes the rows of results; those that are known already stay as they are."""

    def add(self, position: int, index: int, event: AlarmChange | Comment | Label | Note) -> None:
        """Add the ``index``-th event caused by the record at ``position``."""

    def add_diagnosis(self, stored: StoredDiagnosis) -> None:
        """Add the diagnosis of a batch."""

    def add_ledger(self, machine: str, batch: int, columns: Columns) -> None:
        """Add the windows of a batch, if it has any."""


def add_results(rows: ResultRows, machine: str, position: int, result: WatchResult) -> None:
    """Add what the entry at a position led to."""
    ledger = iter(result.ledger)
    for index, event in enumerate(result.events):
        if isinstance(event, Diagnosis):
            columns = next(ledger)
            flagged = sum(event.flagged.values())
            rows.add_diagnosis(StoredDiagnosis(machine, event, flagged, _mean_response(columns)))
            rows.add_ledger(machine, event.batch, columns)
        elif isinstance(event, AlarmChange | Comment | Label | Note):
            rows.add(position, index, event)


def _read_block(entry: Entry) -> Block | None:
    if isinstance(entry, LostRecords) or entry.kind == COMMAND:
        return None
    try:
        return Block.from_bytes(entry.payload)
    except DataError:
        # The watch noted it when it came to this entry, such as a block that another version wrote.
        return None


def _mean_response(columns: Columns) -> float | None:
    """Return the mean residual response of a batch, of the first condition if there are several; None without one."""
    for name, column in columns.items():
        if name.startswith("response") and isinstance(column, np.ndarray) and np.isfinite(column).any():
            return float(np.nanmean(column))
    return None
