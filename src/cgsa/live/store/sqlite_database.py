"""The store in an SQLite file: one connection writes, and every reader has its own."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from cgsa.errors import CgsaError, DataError
from cgsa.files import lock_file
from cgsa.live.store.connection import close_clean, connect_to_read, open_to_write, repair_damaged
from cgsa.live.store.database import Outcome, WriteJob
from cgsa.live.store.dialect import SqliteDialect
from cgsa.live.store.salvage import is_damage
from cgsa.live.store.snapshot import Snapshot


class SqliteDatabase:
    """An SQLite file, which is created if it does not exist, and which only one process at a time opens to write."""

    longest_pause = 1
    errors = sqlite3.Error

    def __init__(self, path: Path) -> None:
        self.path = path
        self.where = str(path)
        self.files = (path,)
        self.dialect = SqliteDialect()
        self._lock_handle = lock_store(path)
        try:
            self._connection, notes = open_to_write(path)
        except BaseException:
            os.close(self._lock_handle)
            raise
        self.repairs = tuple(notes)
        self._readers: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._closed = False

    def write(self, jobs: Sequence[WriteJob]) -> list[Outcome]:
        """Write jobs in one transaction."""
        waited_for = any(job.done is not None for job in jobs)
        database = self._connection
        # A commit survives a crash of the process in any case; only FULL makes it survive a power failure.
        database.execute(f"PRAGMA synchronous = {'FULL' if waited_for else 'NORMAL'}")
        try:
            database.execute("BEGIN IMMEDIATE")
            outcomes = [self._apply(job) for job in jobs]
            if waited_for:
                # What was written without a sync before is synced with this; a transaction without a change is not.
                database.execute("UPDATE meta SET flushes = flushes + 1")
            database.execute("COMMIT")
        except BaseException:
            database.rollback()
            raise
        with suppress(sqlite3.Error):
            # As scripts: a vacuum does one step of work per row, and execute fetches only the first.
            database.executescript("".join(job.then for job in jobs))
        return outcomes

    def is_damage(self, error: BaseException) -> bool:
        """Return whether an error shows that the file is damaged."""
        return is_damage(error)

    def repair(self, damage: Exception) -> list[str]:
        """Replace the damaged file; readers from now on read the new one."""
        with suppress(sqlite3.Error):
            self._connection.close()
        self._connection, messages = repair_damaged(self.path, damage)
        with self._lock:
            self._close_readers()
            self.repairs = (*self.repairs, *messages)
        return messages

    @contextmanager
    def reading(self) -> Iterator[Snapshot]:
        """Yield a snapshot."""
        connection, repairs = self._reader(), self.repairs
        try:
            connection.execute("BEGIN")
            # A transaction fixes its view with its first query, so run one now.
            connection.execute("SELECT clean FROM meta").fetchone()
            yield Snapshot(connection, self.dialect)
        finally:
            with suppress(sqlite3.Error):
                connection.rollback()
            with self._lock:
                if self._closed or self.repairs is not repairs:
                    connection.close()
                else:
                    self._readers.append(connection)

    @contextmanager
    def maintaining(self) -> Iterator[bool]:
        """Yield True: no other process writes."""
        yield True

    def end_reading(self) -> None:
        """Refuse new snapshots, and close what is not in use."""
        with self._lock:
            self._closed = True
            self._close_readers()

    def close(self, *, clean: bool) -> None:
        """Close the file, and let other processes open it."""
        with suppress(sqlite3.Error, CgsaError, OSError):
            if clean:
                close_clean(self._connection, self.path)
        self._connection.close()
        os.close(self._lock_handle)

    def _apply(self, job: WriteJob) -> Outcome:
        rows: Outcome = 0
        self._connection.execute("SAVEPOINT job")
        try:
            for sql, values in job.statements:
                rows = self._connection.execute(sql, values).rowcount
        except Exception as error:
            if isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError:
                raise  # the disk or the file, so other jobs would fail as well
            self._connection.execute("ROLLBACK TO job")
            rows = error
        self._connection.execute("RELEASE job")
        return rows

    def _close_readers(self) -> None:
        while self._readers:
            self._readers.pop().close()

    def _reader(self) -> sqlite3.Connection:
        with self._lock:
            if self._closed:
                raise DataError(f"{self.where}: the store is closed")
            if self._readers:
                return self._readers.pop()
        return connect_to_read(self.path)


def lock_store(path: Path) -> int:
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
