"""Reading from PostgreSQL: each snapshot has a connection, of which there are a few."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import psycopg

from cgsa.errors import DataError
from cgsa.live.store.postgres.address import PostgresAddress
from cgsa.live.store.postgres.connection import PostgresConnection, connect
from cgsa.live.store.postgres.dialect import PostgresDialect
from cgsa.live.store.postgres.schema import check_version, read_version
from cgsa.live.store.snapshot import Snapshot

WAIT_SECONDS = 20.0
"""How long a reader waits for a connection."""
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT 1"
"""The query fixes what the transaction sees."""


class ReaderPool:
    """Connections for reading, usable from any thread."""

    def __init__(self, address: PostgresAddress, dialect: PostgresDialect) -> None:
        self._address, self._dialect = address, dialect
        self._free: list[PostgresConnection] = []
        self._turns = threading.BoundedSemaphore(address.readers)
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def reading(self) -> Iterator[Snapshot]:
        """Yield a snapshot."""
        self._check_open()
        if not self._turns.acquire(timeout=WAIT_SECONDS):
            raise DataError(
                f"{self._address}: all {self._address.readers} connections are reading after {WAIT_SECONDS:g} s; "
                "try again, or allow more readers"
            )
        try:
            connection = self._begun()
            try:
                yield Snapshot(connection, self._dialect)
            finally:
                self._put_back(connection)
        finally:
            self._turns.release()

    def close(self) -> None:
        """Refuse new snapshots, and close what is not in use."""
        with self._lock:
            self._closed = True
            while self._free:
                self._free.pop().raw.close()

    def _check_open(self) -> None:
        with self._lock:
            if self._closed:
                raise DataError(f"{self._address}: the store is closed")

    def _begun(self) -> PostgresConnection:
        """Return a connection in a transaction; those that a restart of the server has ended are dropped."""
        while True:
            with self._lock:
                connection = self._free.pop() if self._free else None
            fresh = connection is None
            connection = connection or connect(self._address)
            try:
                connection.run(_BEGIN)
            except psycopg.Error:
                connection.raw.close()
                if fresh:
                    raise
            else:
                return connection

    def _put_back(self, connection: PostgresConnection) -> None:
        with suppress(psycopg.Error):
            connection.run("ROLLBACK")
        with self._lock:
            if self._closed or connection.raw.closed:
                connection.raw.close()
            else:
                self._free.append(connection)


@contextmanager
def read_postgres(address: PostgresAddress) -> Iterator[Snapshot]:
    """Yield a snapshot of a database that others may be writing; nothing in it is changed."""
    try:
        connection = connect(address)
        with closing(connection.raw):
            connection.run(_BEGIN)
            version = read_version(connection)
            if version is None:
                raise DataError(f"{address}: there is no store here; expected the database of a service")
            check_version(version, str(address))
            yield Snapshot(connection, PostgresDialect())
    except psycopg.Error as error:
        raise DataError(f"{address}: cannot be read ({' '.join(str(error).split())})") from error
