"""The store: what is written waits for one thread, and whoever reads has a connection of their own."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from cgsa.errors import ConfigError, DataError
from cgsa.events import AlarmChange, Comment, Label, Note
from cgsa.ledger.columns import Columns
from cgsa.live.store.connection import connect_to_read, open_to_write
from cgsa.live.store.mapping import Row, diagnosis_statement, event_statements, insertion, to_row
from cgsa.live.store.packing import pack_columns
from cgsa.live.store.rows import AuditEntry, Snippet, StoredDiagnosis, StoredToken
from cgsa.live.store.snapshot import Snapshot
from cgsa.live.store.writer import Writer

DAY = 86_400.0


@dataclass(frozen=True)
class RowRetention:
    """Days after which rows are deleted; none keeps them for ever. Audit, cases, comments and labels always stay."""

    ledger: float | None = 7.0
    """Windows take by far the most room."""
    diagnoses: float | None = 365.0
    notes: float | None = 365.0
    snippets: float | None = 365.0

    def __post_init__(self) -> None:
        for table in ("ledger", "diagnoses", "notes", "snippets"):
            days = getattr(self, table)
            if days is not None and not days >= 0:
                raise ConfigError(f"{table} {days:g}; expected days, 0 or more")


class Store:
    """The service's memory; usable from any thread.

    Parameters
    ----------
    path
        The SQLite file; it is made where there is none. It must lie on a disk of this machine.
    capacity
        Writes that may wait. Where more come, callers wait too, but not for a disk that fails.
    retry_seconds
        How long to wait after a failure before trying again.
    """

    def __init__(self, path: str | Path, *, capacity: int = 4096, retry_seconds: float = 1.0) -> None:
        self.path = Path(path)
        connection, notes = open_to_write(self.path)
        self._writer = Writer(connection, self.path, capacity=capacity, retry_seconds=retry_seconds, notes=notes)
        self._readers: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._closed = False

    @property
    def problem(self) -> str | None:
        """Why nothing can be written just now; none where all is well."""
        return self._writer.problem

    @property
    def lost(self) -> int:
        """Writes that were given up."""
        return self._writer.lost

    @property
    def waiting(self) -> int:
        """Writes that wait for their turn."""
        return self._writer.waiting

    @property
    def notes(self) -> tuple[str, ...]:
        """What went wrong since the store was opened, in sentences; the last few."""
        return self._writer.notes

    def add(self, position: int, index: int, event: AlarmChange | Comment | Label | Note | Snippet) -> None:
        """Write an event: the ``index``-th of those that the record at ``position`` of the machine's journal caused."""
        self._writer.put(*event_statements(position, index, event))

    def add_diagnosis(self, stored: StoredDiagnosis) -> None:
        """Write the diagnosis of a batch."""
        self._writer.put(diagnosis_statement(stored))

    def add_ledger(self, machine: str, batch: int, columns: Columns) -> None:
        """Write the windows of a batch, where it has any."""
        time = np.asarray(columns["time"])
        if not len(time):
            return
        layout, data = pack_columns(columns)
        row: Row = {
            "machine": machine,
            "batch": batch,
            "begin": float(time.min()),
            "time": float(time.max()),
            "windows": len(time),
            "layout": layout,
            "data": data,
        }
        self._writer.put(insertion("ledger", row, "machine, batch"))

    def add_audit(self, entry: AuditEntry) -> None:
        """Write who did what; with :meth:`flush` after it, it is on the disk."""
        self._writer.put(insertion("audit", to_row(entry)))

    def add_token(self, token: StoredToken) -> None:
        """Write a new token and wait until it is on the disk."""
        if not self._writer.wait(insertion("tokens", to_row(token), "name")):
            raise DataError(f"{self.path}: there is a token {token.name!r} already; choose another name")

    def use_token(self, name: str, time: float) -> None:
        """Write when a token was used last."""
        self._writer.put(
            ("UPDATE tokens SET last_used = max(coalesce(last_used, ?), ?) WHERE name = ?", (time, time, name))
        )

    def revoke_token(self, name: str, time: float) -> None:
        """End a token for good and wait until that is on the disk."""
        if not self._writer.wait(("UPDATE tokens SET revoked = ? WHERE name = ? AND revoked IS NULL", (time, name))):
            raise DataError(f"{self.path}: no token {name!r} that could be revoked")

    def flush(self) -> None:
        """Wait until everything before is on the disk, and would survive the loss of power."""
        self._writer.wait(("UPDATE meta SET flushes = flushes + 1", ()))

    def trim(self, now: float, retention: RowRetention, *, chunk: int = 500) -> dict[str, int]:
        """Delete what is older than its days and give the space back; return how many rows went from each table.

        It goes in small steps, so that others can write in between. ``now`` is
        a time of the clock that the streams have.
        """
        removed = {}
        for table, days in vars(retention).items():
            if days is not None:
                removed[table] = self._delete(table, now - DAY * days, chunk)
        with self.read() as snapshot:
            free = snapshot.free_pages()
        for _ in range(0, free, chunk):
            self._writer.wait(then=f"PRAGMA incremental_vacuum({int(chunk)}); PRAGMA wal_checkpoint(PASSIVE);")
        return removed

    @contextmanager
    def read(self) -> Iterator[Snapshot]:
        """Give the store as it is at this moment; what is written meanwhile is not seen."""
        connection = self._reader()
        try:
            connection.execute("BEGIN")
            # A transaction begins to see with its first question, so the first one is asked here.
            connection.execute("SELECT clean FROM meta").fetchone()
            yield Snapshot(connection)
        except sqlite3.Error as error:
            raise DataError(f"{self.path}: cannot be read ({error})") from error
        finally:
            connection.rollback()
            with self._lock:
                if self._closed:
                    connection.close()
                else:
                    self._readers.append(connection)

    def close(self) -> None:
        """Write what waits, and close the file; where it cannot be written, what waits is given up."""
        with self._lock:
            self._closed = True
            while self._readers:
                self._readers.pop().close()
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _delete(self, table: str, before: float, chunk: int) -> int:
        old = f"SELECT id FROM {table} WHERE time < ? ORDER BY time LIMIT ?"  # noqa: S608 - the tables of Retention
        removed = rows = chunk
        while rows == chunk:
            rows = self._writer.wait((f"DELETE FROM {table} WHERE id IN ({old})", (before, chunk)))  # noqa: S608 - as above
            removed += rows
        return removed - chunk

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
