"""The store: one thread writes, and every reader has its own connection."""

from __future__ import annotations

import logging
import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from cgsa.errors import ConfigError, DataError
from cgsa.events import AlarmChange, Comment, Label, Note
from cgsa.files import lock_file
from cgsa.ledger.columns import Columns
from cgsa.live.store.connection import DamagedStoreError, connect_to_read, open_to_write, repair_damaged
from cgsa.live.store.ledger_thinner import thin_ledgers
from cgsa.live.store.mapping import (
    Row,
    Statement,
    delivery_statement,
    diagnosis_statement,
    event_statements,
    healthy_piece_statement,
    insertion,
    to_row,
    trend_statement,
)
from cgsa.live.store.packing import pack_columns, to_text
from cgsa.live.store.rows import (
    AuditEntry,
    DeliveryRecord,
    HealthyPiece,
    MaintenanceWindow,
    Snippet,
    StoredDiagnosis,
    StoredToken,
    StoredTrend,
)
from cgsa.live.store.salvage import is_damage
from cgsa.live.store.schema import ARRIVAL
from cgsa.live.store.snapshot import Snapshot
from cgsa.live.store.thinning import LedgerBudget
from cgsa.live.store.writer import Writer

DAY = 86_400.0

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class RowRetention:
    """Days of history to keep per machine; None keeps everything. Audit, cases, comments and labels are always kept.

    Days count by the arrival of the rows, back from the newest of each machine, whatever the time stamps of its sender
    say: a replayed recording of last year stays, and so does the recent history of a machine that has been off for
    months; and a sender with a wrong clock neither deletes history nor keeps it.
    """

    ledger: float | None = 7.0
    """Windows take by far the most space."""
    diagnoses: float | None = 365.0
    """One per batch of windows."""
    notes: float | None = 365.0
    """What happened to a machine besides diagnoses and alarms."""
    snippets: float | None = 365.0
    """Waveforms around alarms."""

    def __post_init__(self) -> None:
        for table in ("ledger", "diagnoses", "notes", "snippets"):
            days = getattr(self, table)
            if days is not None and not days >= 0:
                raise ConfigError(f"{table} {days:g}; expected days, 0 or more")


class Store:
    """The database of the service; usable from any thread.

    The SQLite file is created if it does not exist, and must be on a local disk. Only
    one process at a time opens it; others read it with :func:`read_store`. If ``capacity`` writes wait, callers
    block, unless the disk fails; ``retry_seconds`` is the time between a failure and the next attempt.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        capacity: int = 4096,
        retry_seconds: float = 1.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path)
        self.clock = clock
        """When a row arrives, in seconds since 1970."""
        self._lock_handle: int | None = _lock(self.path)
        try:
            connection, notes = open_to_write(self.path)
        except BaseException:
            os.close(self._lock_handle)
            raise
        self.repairs = tuple(notes)
        """What was repaired since the store was opened, and what is lost."""
        self.on_repair: Callable[[str], None] = lambda _: None
        """Receives the message about a repair, in the thread that writes."""
        self._readers: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._closed = False
        self._writer = Writer(
            connection,
            self.path,
            capacity=capacity,
            retry_seconds=retry_seconds,
            notes=notes,
            repair=self._repair,
        )
        self.token_changes = 0
        """Changes of tokens through this object, so that whoever keeps tokens in memory reads them again."""

    @property
    def problem(self) -> str | None:
        """Why writing fails at present; None if all is well."""
        return self._writer.problem

    @property
    def lost(self) -> int:
        """Number of writes that were dropped."""
        return self._writer.lost

    @property
    def waiting(self) -> int:
        """Number of writes in the queue."""
        return self._writer.waiting

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages about the last few failures since the store was opened."""
        return self._writer.notes

    def check_room(self) -> None:
        """Raise an error if results would be dropped soon, since nothing can be written: whoever has them can wait."""
        self._writer.check_room()

    def add(self, position: int, index: int, event: AlarmChange | Comment | Label | Note | Snippet) -> None:
        """Write the ``index``-th event caused by the record at ``position`` of the machine's journal."""
        self._writer.put(*event_statements(position, index, event, self.clock()))

    def add_diagnosis(self, stored: StoredDiagnosis) -> None:
        """Write the diagnosis of a batch."""
        self._writer.put(diagnosis_statement(stored, self.clock()))

    def add_ledger(self, machine: str, batch: int, columns: Columns) -> None:
        """Write the windows of a batch, if it has any."""
        times = np.asarray(columns["time"])
        if not len(times):
            return
        layout, data = pack_columns(columns)
        row: Row = {
            "machine": machine,
            "batch": batch,
            "begin": float(times.min()),
            "time": float(times.max()),
            "windows": len(times),
            "layout": layout,
            "data": data,
            "arrived": self.clock(),
        }
        self._writer.put(insertion("ledger", row, "machine, batch"))

    def add_audit(self, entry: AuditEntry) -> None:
        """Write an entry of the audit log; call :meth:`flush` to wait until it is on the disk."""
        self._writer.put(insertion("audit", to_row(entry)))

    def put_delivery(self, record: DeliveryRecord) -> None:
        """Write what became of a notification to one sink, in place of what was known before."""
        self._writer.put(delivery_statement(record))

    def add_maintenance(self, window: MaintenanceWindow) -> None:
        """Write a new maintenance window and wait until it is on the disk."""
        self._writer.wait(insertion("maintenance", to_row(window)))

    def end_maintenance(self, number: int, time: float, who: str) -> None:
        """Write that a person ended a maintenance window, and wait until that is on the disk."""
        sql = "UPDATE maintenance SET ended = ?, ended_by = ? WHERE number = ? AND ended IS NULL"
        if not self._writer.wait((sql, (time, who, number))):
            raise DataError(f"maintenance {number} is over already, or never was")

    def put_trend(self, trend: StoredTrend, keep: int) -> None:
        """Write a minute or hour of a machine, and delete all but the newest ``keep`` of that length."""
        place = (trend.machine, trend.seconds)
        sql = (
            "DELETE FROM trends WHERE machine = ? AND seconds = ? AND id <= (SELECT id FROM trends "
            "WHERE machine = ? AND seconds = ? ORDER BY id DESC LIMIT 1 OFFSET ?)"
        )
        self._writer.put(trend_statement(trend), (sql, (*place, *place, keep)))

    def add_healthy_piece(self, piece: HealthyPiece) -> None:
        """Write a piece of the healthy signal of a machine."""
        self._writer.put(healthy_piece_statement(piece))

    def remove_healthy_signal(self, machine: str) -> None:
        """Delete the healthy signal of a machine, and wait until that is on the disk."""
        self._writer.wait(("DELETE FROM healthy_signals WHERE machine = ?", (machine,)))

    def add_token(self, token: StoredToken) -> None:
        """Write a new token and wait until it is on the disk."""
        message = f"there is a token {token.name!r} already; choose another name"
        self._change_token(insertion("tokens", to_row(token), "name"), message)

    def rotate_token(self, name: str, digest: str, until: float, expires: float | None) -> None:
        """Write a new secret of a token, whose present one stays valid for a while; wait until it is on the disk."""
        sql = (
            "UPDATE tokens SET previous = digest, previous_until = ?, digest = ?, expires = ? "
            "WHERE name = ? AND revoked IS NULL"
        )
        self._change_token((sql, (until, digest, expires, name)), f"no valid token {name!r} that could be rotated")

    def use_token(self, name: str, time: float) -> None:
        """Write when a token was used last."""
        self._writer.put(
            ("UPDATE tokens SET last_used = max(coalesce(last_used, ?), ?) WHERE name = ?", (time, time, name))
        )

    def revoke_token(self, name: str, time: float) -> None:
        """Revoke a token and wait until that is on the disk."""
        sql = "UPDATE tokens SET revoked = ? WHERE name = ? AND revoked IS NULL"
        self._change_token((sql, (time, name)), f"no token {name!r} that could be revoked")

    def flush(self) -> None:
        """Wait until everything written so far is on the disk and would survive a power failure."""
        self._writer.wait(("UPDATE meta SET flushes = flushes + 1", ()))

    def write_together(self, *statements: Statement) -> int:
        """Write statements in one transaction and wait for it; return how many rows the last one changed."""
        return self._writer.wait(*statements)

    def thin(self, now: float, budget: LedgerBudget) -> dict[str, int]:
        """Thin the ledgers to their budget; return how many rows of each machine were replaced.

        ``now`` bounds the newest arrival of a machine, as in :meth:`trim`, which frees the space.
        """
        with self.read() as snapshot:
            newest = snapshot.newest_arrivals("ledger")
        return thin_ledgers(self, {machine: min(now, time) for machine, time in newest.items()}, budget)

    def trim(self, now: float, retention: RowRetention, *, chunk: int = 500) -> dict[str, int]:
        """Delete rows beyond their retention and free the space; return the number of rows deleted per table.

        ``now`` bounds the newest arrival of a machine, since the clock of this computer may have been set back.
        Works in small steps, so that others can write in between.
        """
        with self.read() as snapshot:
            times = [snapshot.newest_arrivals(table) for table in vars(retention)]
        newest = {name: min(now, max(each.get(name, -math.inf) for each in times)) for each in times for name in each}
        removed = {
            table: self._delete(table, {name: time - DAY * days for name, time in newest.items()}, chunk)
            for table, days in vars(retention).items()
            if days is not None
        }
        with self.read() as snapshot:
            free = snapshot.free_pages()
        for _ in range(0, free, chunk):
            self._writer.wait(then=f"PRAGMA incremental_vacuum({int(chunk)}); PRAGMA wal_checkpoint(PASSIVE);")
        return removed

    def check(self) -> str | None:
        """Read all pages; return what is damaged, which is then repaired, or None."""
        with self.read() as snapshot:
            found = snapshot.damage()
        if found is not None:
            self._writer.report_damage(DamagedStoreError(found))
        return found

    @contextmanager
    def read(self) -> Iterator[Snapshot]:
        """Yield a snapshot of the store; later writes are not visible in it."""
        connection, repairs = self._reader(), self.repairs
        try:
            connection.execute("BEGIN")
            # A transaction fixes its view with its first query, so run one now.
            connection.execute("SELECT clean FROM meta").fetchone()
            yield Snapshot(connection)
        except sqlite3.Error as error:
            if is_damage(error) and self.repairs is repairs:
                self._writer.report_damage(error)
            raise DataError(f"{self.path}: cannot be read ({error})") from error
        finally:
            with suppress(sqlite3.Error):
                connection.rollback()
            with self._lock:
                if self._closed or self.repairs is not repairs:
                    connection.close()
                else:
                    self._readers.append(connection)

    def close(self) -> None:
        """Write what is queued and close the file; if it cannot be written, the queue is dropped."""
        with self._lock:
            self._closed = True
            while self._readers:
                self._readers.pop().close()
            if self._lock_handle is None:
                return
        self._writer.close()
        os.close(self._lock_handle)
        self._lock_handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _change_token(self, statement: Statement, refusal: str) -> None:
        """Write a change of one token and wait until it is on the disk; raise an error if nothing has changed."""
        changed = self._writer.wait(statement)
        self.token_changes += 1
        if not changed:
            raise DataError(f"{self.path}: {refusal}")

    def _delete(self, table: str, before: Mapping[str, float], chunk: int) -> int:
        old = f"json_each(?) AS oldest CROSS JOIN {table} AS t ON t.machine = oldest.key AND {ARRIVAL} < oldest.value"
        sql = f"DELETE FROM {table} WHERE id IN (SELECT t.id FROM {old} LIMIT ?)"  # noqa: S608 - names are the package's own
        removed = rows = chunk
        while rows == chunk:
            rows = self._writer.wait((sql, (to_text(before), chunk)))
            removed += rows
        return removed - chunk

    def _repair(self, damage: Exception) -> sqlite3.Connection:
        """Replace the damaged file; readers from now on read the new one."""
        connection, messages = repair_damaged(self.path, damage)
        with self._lock:
            while self._readers:
                self._readers.pop().close()
            self.repairs = (*self.repairs, *messages)
        for message in messages:
            LOG.warning("%s", message)
            self.on_repair(message)
        return connection

    def _reader(self) -> sqlite3.Connection:
        with self._lock:
            if self._closed:
                raise DataError(f"{self.path}: the store is closed")
            if self._readers:
                return self._readers.pop()
        try:
            return connect_to_read(self.path)
        except sqlite3.Error as error:
            raise DataError(f"{self.path}: cannot be read ({error})") from error


def _lock(path: Path) -> int:
    """Return a handle that keeps other processes from opening the store for writing while it is open."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return lock_file(Path(f"{path}.lock"))
    except BlockingIOError as problem:
        raise DataError(
            f"{path}: is in use by {problem.strerror}; stop that service, or use its API while it runs"
        ) from problem
    except OSError as problem:
        raise DataError(f"{path}: cannot be written ({problem.strerror})") from problem


@contextmanager
def read_store(path: str | Path) -> Iterator[Snapshot]:
    """Yield a snapshot of a store that another process may be writing; nothing in it is changed."""
    place = Path(path)
    if not place.is_file():
        raise DataError(f"{place.parent}: there is no store here; expected the folder of a service")
    try:
        with closing(connect_to_read(place)) as connection:
            connection.execute("BEGIN")
            yield Snapshot(connection)
    except sqlite3.Error as error:
        raise DataError(f"{place}: cannot be read ({error})") from error
