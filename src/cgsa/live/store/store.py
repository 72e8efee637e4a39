"""The store: one thread writes, and every reader has its own connection."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from cgsa.errors import ConfigError, DataError
from cgsa.events import AlarmChange, Comment, Label, Note
from cgsa.ledger.columns import Columns
from cgsa.live.store.connection import DamagedStoreError, connect_to_read
from cgsa.live.store.database import Database, Outcome
from cgsa.live.store.dialect import SqliteDialect
from cgsa.live.store.ledger_thinner import thin_ledgers
from cgsa.live.store.mapping import (
    Statement,
    delivery_statement,
    diagnosis_statement,
    event_statements,
    healthy_piece_statement,
    insertion,
    ledger_statement,
    to_row,
    trend_statement,
)
from cgsa.live.store.opening import open_database, postgres_module
from cgsa.live.store.postgres.address import PostgresAddress
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
from cgsa.live.store.snapshot import Snapshot
from cgsa.live.store.thinning import LedgerBudget
from cgsa.live.store.writer import Writer

DAY = 86_400.0


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

    ``place`` is the path of an SQLite file, which is created if it does not exist and must be on a local disk, the
    address of a PostgreSQL database, or a database that is open already. Only one process at a time opens a file;
    others read it with :func:`read_store`. Any number of processes write to PostgreSQL. If ``capacity`` writes wait,
    callers block, unless the disk or the server fails; ``retry_seconds`` is the time between a failure and the next
    attempt.
    """

    def __init__(
        self,
        place: str | Path | PostgresAddress | Database,
        *,
        capacity: int = 4096,
        retry_seconds: float = 1.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.clock = clock
        """When a row arrives, in seconds since 1970."""
        self._database: Database = open_database(place)
        self.on_repair: Callable[[str], None] = lambda _: None
        """Receives the message about a repair, in the thread that writes."""
        self._writer = Writer(
            self._database,
            capacity=capacity,
            retry_seconds=retry_seconds,
            on_repair=self._report_repair,
        )
        self.token_changes = 0
        """Changes of tokens through this object, so that whoever keeps tokens in memory reads them again."""

    @property
    def where(self) -> str:
        """Path or address, without a password."""
        return self._database.where

    @property
    def files(self) -> tuple[Path, ...]:
        """Files of the store on this computer."""
        return self._database.files

    @property
    def repairs(self) -> tuple[str, ...]:
        """What was repaired since the store was opened, and what is lost."""
        return self._database.repairs

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
        statements = ledger_statement(machine, batch, columns, self.clock())
        if statements:
            self._writer.put(*statements)

    def add_audit(self, entry: AuditEntry) -> None:
        """Write an entry of the audit log; call :meth:`flush` to wait until it is on the disk."""
        self._writer.put(insertion("audit", to_row(entry)))

    def put_delivery(self, record: DeliveryRecord) -> None:
        """Write what became of a notification to one sink, in place of what was known before."""
        self._writer.put(delivery_statement(record))

    def add_maintenance(self, window: MaintenanceWindow) -> MaintenanceWindow:
        """Write a new maintenance window, wait until it is on the disk, and return it with the next free number."""
        with self.read() as snapshot:
            number = 1 + max((one.number for one in snapshot.maintenance()), default=0)
        # Another process may take a number at any time.
        while not self._writer.wait(insertion("maintenance", to_row(replace(window, number=number)), "number")):
            number += 1
        return replace(window, number=number)

    def end_maintenance(self, number: int, time: float, who: str) -> None:
        """Write that a person ended a maintenance window, and wait until that is on the disk."""
        sql = "UPDATE maintenance SET ended = ?, ended_by = ? WHERE number = ? AND ended IS NULL"
        if not self._writer.wait((sql, (time, who, number))):
            raise DataError(f"maintenance {number} is over already, or never was")

    def put_trend(self, trend: StoredTrend, keep: int) -> None:
        """Write a minute or hour of a machine, and delete all but the newest ``keep`` of that length.

        One that was written before stays if it has more measurements.
        """
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
        sql = "UPDATE tokens SET last_used = ? WHERE name = ? AND (last_used IS NULL OR last_used < ?)"
        self._writer.put((sql, (time, name, time)))

    def revoke_token(self, name: str, time: float) -> None:
        """Revoke a token and wait until that is on the disk."""
        sql = "UPDATE tokens SET revoked = ? WHERE name = ? AND revoked IS NULL"
        self._change_token((sql, (time, name)), f"no token {name!r} that could be revoked")

    def flush(self) -> None:
        """Wait until everything written so far is on the disk and would survive a power failure."""
        self._writer.wait()

    def write_together(self, *statements: Statement) -> int:
        """Write statements in one transaction and wait for it; return how many rows the last one changed."""
        return self._writer.wait(*statements)

    def write_each(self, *jobs: Sequence[Statement]) -> list[Outcome]:
        """Write jobs, each of them together or not at all, and wait for all.

        Return how many rows the last statement of each changed, or why the job was refused.
        """
        return self._writer.wait_for_each(jobs)

    def rewrite_ledger(self, machine: str, *statements: Statement) -> int:
        """Write statements as :meth:`write_together`; meanwhile nobody adds to the ledger of the machine."""
        return self._writer.wait(*self._database.dialect.stop_additions(machine), *statements)

    def thin(self, now: float, budget: LedgerBudget) -> dict[str, int]:
        """Thin the ledgers to their budget; return how many rows of each machine were replaced.

        ``now`` bounds the newest arrival of a machine, as in :meth:`trim`, which frees the space. Of several processes
        that write to one database, one at a time does either; for the others there is nothing to do.
        """
        with self._database.maintaining() as chosen:
            if not chosen:
                return {}
            with self.read() as snapshot:
                newest = snapshot.newest_arrivals("ledger")
            return thin_ledgers(self, {machine: min(now, time) for machine, time in newest.items()}, budget)

    def trim(self, now: float, retention: RowRetention, *, chunk: int = 500) -> dict[str, int]:
        """Delete rows beyond their retention and free the space; return the number of rows deleted per table.

        ``now`` bounds the newest arrival of a machine, since the clock of this computer may have been set back.
        Works in small steps, so that others can write in between.
        """
        limits = {table: days for table, days in vars(retention).items() if days is not None}
        with self._database.maintaining() as chosen:
            if not chosen:
                return dict.fromkeys(limits, 0)
            with self.read() as snapshot:
                times = [snapshot.newest_arrivals(table) for table in vars(retention)]
            ends = {name: min(now, max(each.get(name, -math.inf) for each in times)) for each in times for name in each}
            removed = {
                table: self._delete(table, {name: end - DAY * days for name, end in ends.items()}, chunk)
                for table, days in limits.items()
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
        repairs = self.repairs
        try:
            with self._database.reading() as snapshot:
                yield snapshot
        except self._database.errors as error:
            if self._database.is_damage(error) and self.repairs is repairs:
                self._writer.report_damage(error)
            raise DataError(f"{self.where}: cannot be read ({' '.join(str(error).split())})") from error

    def close(self) -> None:
        """Write what is queued and close the database; if it cannot be written, the queue is dropped."""
        self._database.end_reading()
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _change_token(self, statement: Statement, refusal: str) -> None:
        """Write a change of one token and wait until it is on the disk; raise an error if nothing has changed."""
        changed = self._writer.wait(statement)
        self.token_changes += 1
        if not changed:
            raise DataError(f"{self.where}: {refusal}")

    def _report_repair(self, message: str) -> None:
        self.on_repair(message)

    def _delete(self, table: str, before: Mapping[str, float], chunk: int) -> int:
        old, values = self._database.dialect.old_rows(table, before, chunk)
        sql = f"DELETE FROM {table} WHERE id IN ({old})"  # noqa: S608 - names are the package's own
        removed = rows = chunk
        while rows == chunk:
            rows = self._writer.wait((sql, values))
            removed += rows
        return removed - chunk


@contextmanager
def read_store(place: str | Path | PostgresAddress) -> Iterator[Snapshot]:
    """Yield a snapshot of a store that another process may be writing; nothing in it is changed."""
    if isinstance(place, PostgresAddress):
        with postgres_module("readers").read_postgres(place) as snapshot:
            yield snapshot
        return
    path = Path(place)
    if not path.is_file():
        raise DataError(f"{path.parent}: there is no store here; expected the folder of a service")
    try:
        with closing(connect_to_read(path)) as connection:
            connection.execute("BEGIN")
            yield Snapshot(connection, SqliteDialect())
    except sqlite3.Error as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
