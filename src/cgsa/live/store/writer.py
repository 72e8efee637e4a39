"""The thread that writes to the store, and repairs it.

It writes everything in its queue in one transaction, so hundreds of machines cost a few
commits per second. Writes that fail stay in the queue and are tried again; if the queue
is full, further writes are dropped and counted.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from cgsa.errors import CgsaError, DataError
from cgsa.live.store.connection import close_clean
from cgsa.live.store.mapping import Statement
from cgsa.live.store.salvage import is_damage

GROUP = 512
"""Maximum number of jobs per transaction."""
MAX_NOTES = 50
REPAIR_PAUSE = 30
"""How much longer than for a write to wait before another attempt to repair the file, which reads all of it."""

LOG = logging.getLogger(__name__)
Repair: TypeAlias = Callable[[Exception], sqlite3.Connection]
"""Replaces a damaged file, and returns a connection to the new one."""


@dataclass(frozen=True, eq=False)
class _Job:
    """Statements that are executed together or not at all."""

    statements: tuple[Statement, ...]
    done: Future[int] | None = None
    """Receives the number of rows that the last statement changed, once it is on the disk; None if nobody waits."""
    then: str = ""
    """SQL that maintains the file afterwards; it may fail, since no row depends on it."""


class Writer:
    """The thread and its queue.

    From now on only the thread uses ``connection``. ``capacity`` limits the queue, ``retry_seconds`` is the time
    between a failure and the next attempt, ``notes`` are the messages so far, and ``repair`` replaces a damaged file.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        *,
        capacity: int,
        retry_seconds: float,
        notes: Sequence[str],
        repair: Repair,
    ) -> None:
        self.problem: str | None = None
        self._error: Exception | None = None
        """What caused the problem."""
        self.lost = 0
        self.notes = tuple(notes)
        self._connection = connection
        self._repair_file = repair
        self._damage: Exception | None = None
        """What others have found damaged."""
        self._path = path
        self._capacity = capacity
        self._retry_seconds = retry_seconds
        self._jobs: deque[_Job] = deque()
        self._in_progress = 0
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="cgsa-store", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of writes that are queued or in progress."""
        with self._changed:
            return len(self._jobs) + self._in_progress

    def put(self, *statements: Statement) -> None:
        """Queue statements."""
        self._put(_Job(statements))

    def wait(self, *statements: Statement, then: str = "") -> int:
        """Queue statements and wait until they are on the disk; return how many rows the last one changed."""
        done: Future[int] = Future()
        self._put(_Job(statements, done, then))
        return done.result()

    def report_damage(self, error: Exception) -> None:
        """Repair the file before the next write."""
        with self._changed:
            self._damage = error
            self._changed.notify_all()

    def check_room(self) -> None:
        """Raise an error if nothing can be written at present and half of the queue is full."""
        with self._changed:
            if self.problem is not None and len(self._jobs) >= self._capacity // 2:
                raise self._failure()

    def close(self) -> None:
        """Write what is queued, end the thread and close the connection."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def _put(self, job: _Job) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: len(self._jobs) < self._capacity or self.problem is not None or self._closing
            )
            if self._closing:
                raise DataError(f"{self._path}: the store is closed")
            if len(self._jobs) < self._capacity:
                self._jobs.append(job)
                self._changed.notify_all()
                return
            if job.done is None:
                self.lost += 1
                return
            raise self._failure()

    def _run(self) -> None:
        while (group := self._next()) or self._damage is not None:
            try:
                if self._damage is not None:
                    self._repair(self._damage)
                outcomes = self._write(group)
            except Exception as error:  # the thread must survive any error and report it
                if is_damage(error):
                    self._damage = error
                self._fail(group, error)
            else:
                self._succeed(group, outcomes)
        with suppress(sqlite3.Error, CgsaError, OSError):
            if self.problem is None:
                close_clean(self._connection, self._path)
        self._connection.close()

    def _next(self) -> list[_Job]:
        """Return the jobs of the next transaction; none once everything is written and the store is closing."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._jobs) or self._closing or self._damage is not None)
            group = [self._jobs.popleft() for _ in range(min(GROUP, len(self._jobs)))]
            self._in_progress = len(group)
            self._changed.notify_all()
            return group

    def _repair(self, damage: Exception) -> None:
        """Replace the damaged file; if that fails, it is tried again before the next write."""
        with suppress(sqlite3.Error):
            self._connection.close()
        self._connection = self._repair_file(damage)
        self._damage = None

    def _write(self, group: Sequence[_Job]) -> list[int | Exception]:
        """Write jobs in one transaction; return the number of rows that each changed, or its error."""
        waited_for = any(job.done is not None for job in group)
        database = self._connection
        # A commit survives a crash of the process in any case; only FULL makes it survive a power failure.
        database.execute(f"PRAGMA synchronous = {'FULL' if waited_for else 'NORMAL'}")
        try:
            database.execute("BEGIN IMMEDIATE")
            outcomes = [self._apply(job) for job in group]
            database.execute("COMMIT")
        except BaseException:
            database.rollback()
            raise
        with suppress(sqlite3.Error):
            # As scripts: a vacuum does one step of work per row, and execute fetches only the first.
            database.executescript("".join(job.then for job in group))
        return outcomes

    def _apply(self, job: _Job) -> int | Exception:
        rows: int | Exception = 0
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

    def _succeed(self, group: Sequence[_Job], outcomes: Sequence[int | Exception]) -> None:
        with self._changed:
            self._in_progress = 0
            if self.problem is not None:
                self._note(f"can be written again; {self.lost} writes were dropped so far")
                self.problem = None
            for job, outcome in zip(group, outcomes, strict=True):
                if job.done is None and isinstance(outcome, Exception):
                    self.lost += 1
                    self._note(f"a write was refused ({outcome}): {job.statements[-1][0][:80]}")
        for job, outcome in zip(group, outcomes, strict=True):
            if job.done is not None:
                if isinstance(outcome, int):
                    job.done.set_result(outcome)
                else:
                    job.done.set_exception(DataError(f"{self._path}: refused ({outcome})"))

    def _fail(self, group: Sequence[_Job], error: Exception) -> None:
        """Report the error to callers that wait, keep the other jobs, and pause."""
        with self._changed:
            self._in_progress = 0
            failed_before = self.problem is not None
            if not failed_before:
                self._note(f"cannot be written ({error})")
            self.problem = f"{self._path}: cannot be written ({error}); it is tried again"
            self._error = error
            failure = self._failure()
            jobs = [*group, *self._jobs]
            self._jobs = deque(job for job in jobs if job.done is None)
            if self._closing:
                self.lost += len(self._jobs)
                self._jobs.clear()
                self._damage = None
            self._changed.notify_all()
        for job in jobs:
            if job.done is not None:
                job.done.set_exception(failure)
        pause = self._retry_seconds * (REPAIR_PAUSE if failed_before and self._damage is not None else 1)
        with self._changed:
            self._changed.wait_for(lambda: self._closing, timeout=pause)

    def _failure(self) -> DataError:
        """Return the present problem as an error, with its cause."""
        found = DataError(str(self.problem))
        found.__cause__ = self._error
        return found

    def _note(self, text: str) -> None:
        LOG.warning("%s: %s", self._path, text)
        self.notes = (*self.notes, f"{self._path}: {text}")[-MAX_NOTES:]
