"""Keeps the ledger of each machine within its budget: reads old rows, and writes thinned ones in their place."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np

from cgsa.errors import DataError
from cgsa.ledger.columns import Columns
from cgsa.live.store.mapping import Row, Statement, insertion
from cgsa.live.store.packing import join_columns, pack_columns, unpack_columns
from cgsa.live.store.rows import LedgerRow
from cgsa.live.store.snapshot import Snapshot
from cgsa.live.store.thinning import (
    GROUPS,
    KEPT,
    MEANS,
    SAMPLED,
    WHOLE,
    LedgerBudget,
    averaged_windows,
    sampled_windows,
)

HOUR = 3600.0
MEGABYTE = 10**6
ROWS_READ = 256
"""Rows read at a time, at most."""
MAX_ROUNDS = 100_000
"""Groups thinned per call and machine, at most: a bound for a fault of the program."""

LOG = logging.getLogger(__name__)


class ThinnedStore(Protocol):
    """What thinning needs of a store."""

    def read(self) -> AbstractContextManager[Snapshot]:
        """Open a snapshot."""

    def rewrite_ledger(self, machine: str, *statements: Statement) -> int:
        """Write statements in one transaction, in which nobody adds to the ledger of the machine."""


def thin_ledgers(store: ThinnedStore, newest: Mapping[str, float], budget: LedgerBudget) -> dict[str, int]:
    """Thin the ledger of each machine, whose newest row arrived at the time given; return the rows replaced of each."""
    return {machine: _MachineThinner(store, machine, budget).run(now) for machine, now in newest.items()}


class _MachineThinner:
    """Thins the ledger of one machine."""

    def __init__(self, store: ThinnedStore, machine: str, budget: LedgerBudget) -> None:
        self._store, self._machine, self._budget = store, machine, budget

    def run(self, now: float) -> int:
        """Thin what is old enough, and then what is beyond the size; return how many rows were replaced."""
        budget = self._budget
        count = self._thin_all(WHOLE, now - HOUR * budget.whole_hours, keep=True)
        count += self._thin_all(SAMPLED, now - HOUR * budget.sampled_hours)
        # Beyond the size: the oldest of each stage first, and windows around alarms after all others.
        for stage in (WHOLE, SAMPLED, KEPT):
            count += self._thin_all(stage, np.inf, keep=stage == WHOLE, until=self._fits)
        while not self._fits() and (removed := self._remove_oldest()):
            count += removed
        return count

    def _fits(self) -> bool:
        with self._store.read() as snapshot:
            return snapshot.ledger_bytes(self._machine) <= MEGABYTE * self._budget.megabytes

    def _thin_all(
        self, stage: int, before: float, *, keep: bool = False, until: Callable[[], bool] = lambda: False
    ) -> int:
        """Thin the rows of a stage that arrived before a time; with ``keep``, not those around alarms and labels."""
        count = 0
        for _ in range(MAX_ROUNDS):
            if until():
                break
            group, kept = self._next_group(stage, before, keep=keep)
            if not group and not kept:
                break
            count += self._replace(group, stage) + self._keep(kept)
        return count

    def _next_group(self, stage: int, before: float, *, keep: bool) -> tuple[list[LedgerRow], list[LedgerRow]]:
        """Return the oldest rows that become one row, or else those that stay whole."""
        group: list[LedgerRow] = []
        kept: list[LedgerRow] = []
        with self._store.read() as snapshot:
            for row in snapshot.ledger_rows(self._machine, stage, before, limit=ROWS_READ):
                stays = keep and self._stays_whole(snapshot, row)
                if (stays and group) or (not stays and kept) or not _continues(group, row, GROUPS[stage]):
                    break
                (kept if stays else group).append(row)
        return group, kept

    def _stays_whole(self, snapshot: Snapshot, row: LedgerRow) -> bool:
        around = self._budget.alarm_seconds
        return snapshot.is_wanted_later(self._machine, row.begin, row.time, before=around, after=around)

    def _replace(self, rows: Sequence[LedgerRow], stage: int) -> int:
        """Write one thinned row in the place of several."""
        batches = list(_unpacked(rows, self._machine))
        removal = _removal(rows)
        if not batches:
            self._store.rewrite_ledger(self._machine, *removal)
            return len(rows)
        columns = join_columns(batches)
        if stage == SAMPLED:
            thinned, next_stage = averaged_windows(columns, self._budget.mean_seconds), MEANS
        else:
            thinned, next_stage = sampled_windows(columns, self._budget.every), SAMPLED
        self._store.rewrite_ledger(self._machine, *removal, _addition(self._machine, rows, thinned, next_stage))
        return len(rows)

    def _keep(self, rows: Sequence[LedgerRow]) -> int:
        """Mark rows around an alarm or label, so that they are not examined again."""
        if rows:
            self._store.rewrite_ledger(
                self._machine, *(("UPDATE ledger SET stage = ? WHERE id = ?", (KEPT, row.id)) for row in rows)
            )
        return 0

    def _remove_oldest(self) -> int:
        with self._store.read() as snapshot:
            rows = list(snapshot.ledger_rows(self._machine, MEANS, np.inf, limit=1))
        if rows:
            self._store.rewrite_ledger(self._machine, *_removal(rows))
        return len(rows)


def _continues(group: Sequence[LedgerRow], row: LedgerRow, seconds: float) -> bool:
    """Return whether a row belongs to a group: its windows follow in time, within some seconds."""
    return not group or (row.begin >= group[-1].begin and row.time < group[0].begin + seconds)


def _unpacked(rows: Iterable[LedgerRow], machine: str) -> Iterator[Columns]:
    for row in rows:
        try:
            yield unpack_columns(row.layout, row.data, row.windows)
        except (DataError, ValueError) as error:
            LOG.warning("%s: windows from %.1f to %.1f are lost: %s", machine, row.begin, row.time, error)


def _removal(rows: Sequence[LedgerRow]) -> list[Statement]:
    return [("DELETE FROM ledger WHERE id = ?", (row.id,)) for row in rows]


def _addition(machine: str, rows: Sequence[LedgerRow], columns: Columns, stage: int) -> Statement:
    layout, data = pack_columns(columns)
    row: Row = {
        "machine": machine,
        "batch": min(row.batch for row in rows),
        "last_batch": max(row.last_batch for row in rows),
        "begin": min(row.begin for row in rows),
        "time": max(row.time for row in rows),
        "windows": len(columns["time"]),
        "layout": layout,
        "data": data,
        "arrived": max(row.arrived for row in rows),
        "stage": stage,
    }
    return insertion("ledger", row, "machine, batch")
