"""Writing to PostgreSQL: groups of jobs in one transaction each, also over a restart of the server.

If the server goes away while it commits, nobody knows whether it did. So each transaction begins with the number of the
group in the row of this writer: the row says afterwards whether the group was written, and a server process that is
still busy with it holds the row until it ends.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg.errors import DeadlockDetected, SerializationFailure

from cgsa.errors import DataError
from cgsa.live.store.database import Outcome, WriteJob
from cgsa.live.store.postgres.address import PostgresAddress
from cgsa.live.store.postgres.connection import ANSWER_SECONDS, PostgresConnection, PostgresRow, connect
from cgsa.live.store.postgres.dialect import PostgresDialect
from cgsa.live.store.postgres.readers import ReaderPool
from cgsa.live.store.postgres.schema import LEDGER_LOCK, migrate
from cgsa.live.store.snapshot import Snapshot

ATTEMPTS = 5
"""Attempts to write a group before the failure is reported: a lost connection is replaced, a deadlock is over."""
MAINTENANCE = LEDGER_LOCK + 1
"""Lock of the process that deletes and thins old rows."""
FORGOTTEN_DAYS = 30
"""After this time, a writer that was killed is forgotten."""
SETTINGS = {
    "lock_timeout": f"{ANSWER_SECONDS}s",
    # A process that was stopped in the middle of a transaction must not hold the rows of others.
    "idle_in_transaction_session_timeout": "60s",
}
_WAIT_FOR_DISK = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)
_OWN_ROW = (
    "INSERT INTO writers VALUES (?, ?, ?) "
    "ON CONFLICT (writer) DO UPDATE SET number = excluded.number, seen = excluded.seen"
)


class PostgresDatabase:
    """A PostgreSQL database, whose tables are created or migrated when it is opened."""

    longest_pause = 16
    errors = psycopg.Error
    files: tuple[Path, ...] = ()
    repairs: tuple[str, ...] = ()

    def __init__(self, address: PostgresAddress) -> None:
        self.where = str(address)
        self.dialect = PostgresDialect()
        self._address = address
        self._writer, self._number = uuid4().hex, 0
        self._unconfirmed: dict[WriteJob, Outcome] = {}
        """Jobs of a transaction whose end is not known."""
        self._written: dict[WriteJob, Outcome] = {}
        """Jobs that turned out to be written after all."""
        try:
            self._connection = self._connected()
        except psycopg.Error as error:
            raise DataError(f"{self.where}: cannot be opened ({' '.join(str(error).split())})") from error
        self._readers = ReaderPool(address, self.dialect)

    def write(self, jobs: Sequence[WriteJob]) -> list[Outcome]:
        """Write jobs in one transaction, at most once each."""
        attempt = 0
        while True:
            attempt += 1
            if self._connection.raw.closed:
                self._connection = self._connected()
            try:
                return self._write(jobs)
            except psycopg.Error as error:
                passes = isinstance(error, DeadlockDetected | SerializationFailure) or self._connection.raw.closed
                if attempt == ATTEMPTS or not passes:
                    raise

    def is_damage(self, error: BaseException) -> bool:
        """Return False: damage is for the administrator of the server."""
        del error
        return False

    def repair(self, damage: Exception) -> list[str]:
        """Do nothing, since nothing is reported as damage."""
        del damage
        return []

    def reading(self) -> AbstractContextManager[Snapshot]:
        """Open a snapshot."""
        return self._readers.reading()

    @contextmanager
    def maintaining(self) -> Iterator[bool]:
        """Yield whether no other process deletes and thins old rows; none begins to before this one ends."""
        try:
            connection = connect(self._address)
        except psycopg.Error as error:
            raise DataError(f"{self.where}: cannot be written ({' '.join(str(error).split())})") from error
        with closing(connection.raw):
            granted = bool(connection.execute(f"SELECT pg_try_advisory_lock({MAINTENANCE})").fetchall()[0][0])
            try:
                yield granted
            finally:
                # The lock ends with the connection, too, but only once the server has noticed that it is closed.
                with suppress(psycopg.Error):
                    connection.execute(f"SELECT pg_advisory_unlock({MAINTENANCE})")

    def end_reading(self) -> None:
        """Refuse new snapshots, and close what is not in use."""
        self._readers.close()

    def close(self, *, clean: bool) -> None:
        """Close the connection after the last write."""
        with suppress(psycopg.Error):
            if clean:
                self._connection.execute("DELETE FROM writers WHERE writer = ?", (self._writer,))
        self._connection.raw.close()

    def _connected(self) -> PostgresConnection:
        """Return a connection to tables of this version, in which this writer has a row."""
        connection = connect(self._address)
        # What psycopg prepares in a pipeline that ends with an error is missing on the server later.
        connection.raw.prepare_threshold = None
        try:
            migrate(connection, self.where)
            for name, value in SETTINGS.items():
                connection.execute("SELECT set_config(?, ?, false)", (name, value))
            connection.execute(_WAIT_FOR_DISK)
            connection.execute("DELETE FROM writers WHERE seen < ?", (time.time() - FORGOTTEN_DAYS * 86_400.0,))
            if not self._number:
                # Before the first transaction, so that there is a row to lock if its answer is lost.
                connection.execute(_OWN_ROW, (self._writer, self._number, time.time()))
        except BaseException:
            connection.raw.close()
            raise
        return connection

    def _write(self, jobs: Sequence[WriteJob]) -> list[Outcome]:
        self._settle()
        left = [job for job in jobs if job not in self._written]
        outcomes = self._transaction(left) if left else []
        found = self._written | dict(zip(left, outcomes, strict=True))
        self._written = {}
        return [found[job] for job in jobs]

    def _settle(self) -> None:
        """Find out whether the transaction before was committed, after its answer was lost."""
        if not self._unconfirmed:
            return
        # The row is locked as long as the server still works on that transaction.
        sql = "SELECT number FROM writers WHERE writer = ? FOR UPDATE"
        if [row[0] for row in self._connection.execute(sql, (self._writer,))] == [self._number]:
            self._written |= self._unconfirmed
        self._unconfirmed = {}

    def _transaction(self, jobs: Sequence[WriteJob]) -> list[Outcome]:
        self._number += 1
        try:
            try:
                outcomes = self._write_at_once(jobs)
            except Exception as error:
                if not _is_refusal(error):
                    raise
                self._connection.run("ROLLBACK")
                outcomes = self._write_one_by_one(jobs)
            self._unconfirmed = dict(zip(jobs, outcomes, strict=True))
            self._commit()
        except BaseException:
            with suppress(psycopg.Error):
                self._connection.run("ROLLBACK")
            raise
        self._unconfirmed = {}
        return outcomes

    def _commit(self) -> None:
        # Of a transaction with an error, the server makes a rollback without a word.
        if self._connection.run("COMMIT").statusmessage != "COMMIT":
            raise psycopg.OperationalError("the server has rolled the transaction back")

    def _write_at_once(self, jobs: Sequence[WriteJob]) -> list[Outcome]:
        """Execute all jobs without waiting for the answer to each; an error of one is an error of all."""
        answers: list[psycopg.Cursor[PostgresRow] | None] = []
        with self._connection.raw.pipeline():
            self._begin()
            for job in jobs:
                answer = None
                for sql, values in job.statements:
                    answer = self._connection.execute(sql, values)
                answers.append(answer)
        return [0 if answer is None else answer.rowcount for answer in answers]

    def _write_one_by_one(self, jobs: Sequence[WriteJob]) -> list[Outcome]:
        """Execute jobs so that those that are refused change nothing."""
        self._begin()
        return [self._apply(job) for job in jobs]

    def _apply(self, job: WriteJob) -> Outcome:
        rows: Outcome = 0
        self._connection.run("SAVEPOINT job")
        try:
            for sql, values in job.statements:
                rows = self._connection.execute(sql, values).rowcount
        except Exception as error:
            if not _is_refusal(error):
                raise
            self._connection.run("ROLLBACK TO job")
            rows = error
        self._connection.run("RELEASE job")
        return rows

    def _begin(self) -> None:
        self._connection.run("BEGIN")
        self._connection.execute(_OWN_ROW, (self._writer, self._number, time.time()))


def _is_refusal(error: Exception) -> bool:
    """Return whether an error is about the content of one job: others, and a second attempt, may succeed."""
    if isinstance(error, psycopg.IntegrityError | psycopg.DataError):
        return True
    if isinstance(error, psycopg.Error):
        # Without a state, the value did not get as far as the server.
        return isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None
    return not isinstance(error, DataError)
