"""The thread that writes to the store, and has it repaired.

It writes everything in its queue in one transaction, so hundreds of machines cost a few
commits per second. Writes that fail stay in the queue and are tried again; if the queue
is full, further writes are dropped and counted.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from cgsa.errors import DataError
from cgsa.live.store.database import Database, Outcome, RefusedWriteError, WriteJob
from cgsa.live.store.mapping import Statement

GROUP = 512
"""Maximum number of jobs per transaction."""
MAX_NOTES = 50
REPAIR_PAUSE = 30
"""How much longer than for a write to wait before another attempt to repair the file, which reads all of it."""

LOG = logging.getLogger(__name__)


class Writer:
    """The thread and its queue.

    From now on only the thread writes to ``database``. ``capacity`` limits the queue, ``retry_seconds`` is the time
    between a failure and the next attempt, and ``on_repair`` receives what a repair of the database has lost.
    """

    def __init__(
        self,
        database: Database,
        *,
        capacity: int,
        retry_seconds: float,
        on_repair: Callable[[str], None],
    ) -> None:
        self.problem: str | None = None
        self._error: Exception | None = None
        """What caused the problem."""
        self.lost = 0
        self.notes = database.repairs
        self._database = database
        self._on_repair = on_repair
        self._failures = 0
        """Failures since the last success."""
        self._damage: Exception | None = None
        """What others have found damaged."""
        self._capacity = capacity
        self._retry_seconds = retry_seconds
        self._jobs: deque[WriteJob] = deque()
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
        self._put(WriteJob(statements))

    def wait(self, *statements: Statement, then: str = "") -> int:
        """Queue statements and wait until they are on the disk; return how many rows the last one changed."""
        done: Future[int] = Future()
        self._put(WriteJob(statements, done, then))
        return done.result()

    def wait_for_each(self, jobs: Sequence[Sequence[Statement]]) -> list[Outcome]:
        """Queue jobs and wait until all are on the disk; return how many rows the last statement of each changed.

        A job that is refused has the reason in its place.
        """
        waiting: list[Future[int]] = []
        for statements in jobs:
            waiting.append(Future())
            self._put(WriteJob(tuple(statements), waiting[-1]))
        outcomes: list[Outcome] = []
        for one in waiting:
            try:
                outcomes.append(one.result())
            except RefusedWriteError as error:
                outcomes.append(error)
        return outcomes

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

    def _put(self, job: WriteJob) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: len(self._jobs) < self._capacity or self.problem is not None or self._closing
            )
            if self._closing:
                raise DataError(f"{self._database.where}: the store is closed")
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
                if self._database.is_damage(error):
                    self._damage = error
                self._fail(group, error)
            else:
                self._succeed(group, outcomes)
        self._database.close(clean=self.problem is None)

    def _next(self) -> list[WriteJob]:
        """Return the jobs of the next transaction; none once everything is written and the store is closing."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._jobs) or self._closing or self._damage is not None)
            group = [self._jobs.popleft() for _ in range(min(GROUP, len(self._jobs)))]
            self._in_progress = len(group)
            self._changed.notify_all()
            return group

    def _repair(self, damage: Exception) -> None:
        """Have the damaged file replaced; if that fails, it is tried again before the next write."""
        messages = self._database.repair(damage)
        self._damage = None
        for message in messages:
            LOG.warning("%s", message)
            self._on_repair(message)

    def _write(self, group: Sequence[WriteJob]) -> list[Outcome]:
        """Write jobs in one transaction; return the number of rows that each changed, or its error."""
        return self._database.write(group)

    def _succeed(self, group: Sequence[WriteJob], outcomes: Sequence[Outcome]) -> None:
        with self._changed:
            self._in_progress = self._failures = 0
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
                    job.done.set_exception(RefusedWriteError(f"{self._database.where}: refused ({outcome})"))

    def _fail(self, group: Sequence[WriteJob], error: Exception) -> None:
        """Report the error to callers that wait, keep the other jobs, and pause."""
        with self._changed:
            self._in_progress = 0
            self._failures += 1
            text = " ".join(str(error).split())
            if self.problem is None:
                self._note(f"cannot be written ({text})")
            self.problem = f"{self._database.where}: cannot be written ({text}); it is tried again"
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
        with self._changed:
            self._changed.wait_for(lambda: self._closing, timeout=self._retry_seconds * self._pause())

    def _pause(self) -> int:
        """Return how many times as long as after a first failure to wait now."""
        if self._damage is not None:
            return REPAIR_PAUSE if self._failures > 1 else 1
        return min(1 << min(self._failures - 1, 30), self._database.longest_pause)

    def _failure(self) -> DataError:
        """Return the present problem as an error, with its cause."""
        found = DataError(str(self.problem))
        found.__cause__ = self._error
        return found

    def _note(self, text: str) -> None:
        LOG.warning("%s: %s", self._database.where, text)
        self.notes = (*self.notes, f"{self._database.where}: {text}")[-MAX_NOTES:]
