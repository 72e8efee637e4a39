"""Reading from the store: a consistent snapshot with one method per query."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

import numpy as np

from cgsa.errors import DataError
from cgsa.events import AlarmChange, Case, Comment, Label, Note
from cgsa.ledger.columns import Columns, LabelColumn
from cgsa.live.store.case_filter import ALL_CASES, CaseFilter
from cgsa.live.store.dialect import Dialect, ReadConnection
from cgsa.live.store.mapping import TABLES, Statement, StoredRow, Value, from_row
from cgsa.live.store.packing import join_columns, unpack_columns
from cgsa.live.store.pages import NEWEST, RowPage, RowSelection, T_co, parse_cursor
from cgsa.live.store.rows import (
    AuditEntry,
    Claim,
    DeliveryRecord,
    HealthyPiece,
    LedgerRow,
    MaintenanceWindow,
    Snippet,
    StoredCase,
    StoredDiagnosis,
    StoredToken,
    StoredTrend,
    TableSize,
)
from cgsa.live.store.salvage import utc_text
from cgsa.live.store.tables import ARRIVAL

T = TypeVar("T")

LOG = logging.getLogger(__name__)


class Snapshot:
    """The store at one point in time; valid only within its context and thread."""

    def __init__(self, connection: ReadConnection, dialect: Dialect) -> None:
        self._connection, self._dialect = connection, dialect
        self.unreadable: list[str] = []
        """Messages about rows that were left out, because their content is damaged."""

    def diagnoses(self, machine: str | None = None, pick: RowSelection = NEWEST) -> RowPage[StoredDiagnosis]:
        """Return diagnoses by the times at which their batches end."""
        return self._page(StoredDiagnosis, pick, machine=machine)

    def notes(
        self, machine: str | None = None, *, topic: str | None = None, pick: RowSelection = NEWEST
    ) -> RowPage[Note]:
        """Return notes."""
        return self._page(Note, pick, machine=machine, topic=topic)

    def cases(
        self, machine: str | None = None, *, which: CaseFilter = ALL_CASES, pick: RowSelection = NEWEST
    ) -> RowPage[StoredCase]:
        """Return cases as they are now, by the times at which they opened."""
        return self._page(StoredCase, pick, which.condition(self._dialect), machine=machine)

    def deliveries(
        self, machine: str | None = None, *, case: int | None = None, pick: RowSelection = NEWEST
    ) -> RowPage[DeliveryRecord]:
        """Return what became of notifications, by the times at which the sinks were asked to deliver them."""
        return self._page(DeliveryRecord, pick, machine=machine, number=case)

    def trends(self, machine: str, seconds: int, pick: RowSelection = NEWEST) -> RowPage[StoredTrend]:
        """Return the minutes (60 seconds) or hours (3600) of a machine."""
        return self._page(StoredTrend, pick, machine=machine, seconds=seconds)

    def healthy_signal(self, machine: str) -> tuple[HealthyPiece, ...]:
        """Return the pieces of the healthy signal of a machine, the oldest first."""
        rows = self._connection.execute("SELECT * FROM healthy_signals WHERE machine = ? ORDER BY id", (machine,))
        return tuple(from_row(HealthyPiece, row) for row in rows)

    def maintenance(self) -> tuple[MaintenanceWindow, ...]:
        """Return all maintenance windows, the newest first."""
        rows = self._connection.execute("SELECT * FROM maintenance ORDER BY number DESC")
        return tuple(from_row(MaintenanceWindow, row) for row in rows)

    def claims(self) -> dict[str, Claim]:
        """Return who may write the results of each machine of a fleet."""
        return {row["machine"]: from_row(Claim, row) for row in self._connection.execute("SELECT * FROM claims")}

    def statuses(self) -> dict[str, str]:
        """Return the published status of each machine of a fleet, as JSON."""
        return {row[0]: row[1] for row in self._connection.execute("SELECT machine, status FROM machine_statuses")}

    def newest_id(self, kept: type[object]) -> int:
        """Return the highest id in the table of a class; 0 without rows."""
        sql = f"SELECT coalesce(max(id), 0) FROM {TABLES[kept]}"  # noqa: S608 - names are the package's own
        return int(self._connection.execute(sql).fetchone()[0])

    def ids_after(self, kept: type[object], after: int) -> list[int]:
        """Return the ids in the table of a class that are higher than one, in order."""
        sql = f"SELECT id FROM {TABLES[kept]} WHERE id > ? ORDER BY id"  # noqa: S608 - as above
        return [row[0] for row in self._connection.execute(sql, (after,))]

    def rows_from(self, kept: type[T], begin: int, limit: int) -> list[tuple[int, T]]:
        """Return rows from an id on, in order, with their ids; those that are damaged are left out."""
        sql = f"SELECT * FROM {TABLES[kept]} WHERE id >= ? ORDER BY id LIMIT ?"  # noqa: S608 - as above
        rows = self._connection.execute(sql, (begin, limit))
        return self._readable(TABLES[kept], rows, lambda row: (row["id"], from_row(kept, row)))

    def changes(
        self, machine: str | None = None, *, case: int | None = None, pick: RowSelection = NEWEST
    ) -> RowPage[AlarmChange]:
        """Return the changes of cases."""
        return self._page(AlarmChange, pick, machine=machine, number=case)

    def comments(
        self, machine: str | None = None, *, case: int | None = None, pick: RowSelection = NEWEST
    ) -> RowPage[Comment]:
        """Return the comments on cases."""
        return self._page(Comment, pick, machine=machine, number=case)

    def labels(
        self, machine: str | None = None, *, case: int | None = None, pick: RowSelection = NEWEST
    ) -> RowPage[Label]:
        """Return labels by the times at which they were given."""
        return self._page(Label, pick, machine=machine, number=case)

    def snippets(
        self, machine: str | None = None, *, case: int | None = None, pick: RowSelection = NEWEST
    ) -> RowPage[Snippet]:
        """Return waveforms around alarms."""
        return self._page(Snippet, pick, machine=machine, number=case)

    def alarms_without_snippet(self, machine: str, first: int) -> tuple[tuple[int, float, int], ...]:
        """Return position, time and case number of notified alarms from position ``first`` on that lack a snippet."""
        found = self._connection.execute(
            "SELECT position, time, number FROM alarm_changes AS alarm WHERE machine = ? AND position >= ? "
            "AND notify != 0 "
            "AND NOT EXISTS (SELECT 1 FROM snippets WHERE machine = alarm.machine AND position = alarm.position)",
            (machine, first),
        )
        return tuple(tuple(row) for row in found)

    def is_wanted_later(self, machine: str, begin: float, end: float, *, before: float, after: float) -> bool:
        """Return whether a label is about some of an interval, or an alarm was raised in it.

        Of alarms, the seconds ``before`` and ``after`` count, too.
        """
        found = self._connection.execute(
            "SELECT EXISTS (SELECT 1 FROM alarm_changes WHERE machine = ? AND notify != 0 AND time > ? AND time < ?) "
            'OR EXISTS (SELECT 1 FROM labels WHERE machine = ? AND "end" > ? AND "begin" < ?)',
            (machine, begin - after, end + before, machine, begin, end),
        )
        return bool(found.fetchone()[0])

    def next_batch(self, machine: str) -> int:
        """Return the number of a machine's next batch."""
        found = self._connection.execute("SELECT max(batch) FROM diagnoses WHERE machine = ?", (machine,)).fetchone()[0]
        return 0 if found is None else int(found) + 1

    def newest_case(self, machine: str) -> Case | None:
        """Return the case of a machine with the highest number."""
        row = self._connection.execute(
            "SELECT * FROM cases WHERE machine = ? ORDER BY number DESC LIMIT 1", (machine,)
        ).fetchone()
        return None if row is None else from_row(Case, row)

    def newest_arrivals(self, table: str) -> dict[str, float]:
        """Return when the newest row of each machine in a table arrived; reads one index entry per machine."""
        found = self._connection.execute(
            f"WITH RECURSIVE machines(machine) AS (SELECT min(machine) FROM {table} UNION ALL SELECT "  # noqa: S608 - names are the package's own
            f"(SELECT min(machine) FROM {table} WHERE machine > machines.machine) FROM machines WHERE machine NOTNULL) "
            f"SELECT machine, (SELECT max({ARRIVAL}) FROM {table} AS t WHERE t.machine = machines.machine) "
            "FROM machines WHERE machine NOTNULL"
        )
        return dict(tuple(row) for row in found)

    def audit(
        self, machine: str | None = None, *, who: str | None = None, pick: RowSelection = NEWEST
    ) -> RowPage[AuditEntry]:
        """Return the audit log."""
        return self._page(AuditEntry, pick, machine=machine, who=who)

    def token(self, name: str) -> StoredToken | None:
        """Return the token with this name, valid or revoked."""
        row = self._connection.execute("SELECT * FROM tokens WHERE name = ?", (name,)).fetchone()
        return None if row is None else from_row(StoredToken, row)

    def tokens(self) -> tuple[StoredToken, ...]:
        """Return all tokens by their names."""
        rows = self._connection.execute("SELECT * FROM tokens ORDER BY name")
        return tuple(from_row(StoredToken, row) for row in rows)

    def ledger(self, machine: str, begin: float, end: float, *, limit: int = 1_000_000) -> Columns:
        """Return the windows that begin from ``begin`` on and before ``end``, in stream order.

        Evidence that only some batches have is NaN in the others. Without a batch there are no columns.
        """
        where = 'FROM ledger WHERE machine = ? AND time >= ? AND "begin" < ?'
        values = (machine, begin, end)
        windows = self._connection.execute(f"SELECT coalesce(sum(windows), 0) {where}", values).fetchone()[0]
        if windows > limit:
            raise DataError(
                f"{machine}: {windows} windows from {begin:g} to {end:g}; at most {limit} are read at a time"
            )
        rows = self._connection.execute(f"SELECT time, windows, layout, data {where} ORDER BY time", values)
        batches = self._readable("ledger", rows, lambda row: unpack_columns(row["layout"], row["data"], row["windows"]))
        if not batches:
            return {}
        joined = join_columns(batches)
        time = np.asarray(joined["time"])
        inside = (begin <= time) & (time < end)
        return {
            name: LabelColumn(column.codes[inside], column.labels)
            if isinstance(column, LabelColumn)
            else column[inside]
            for name, column in joined.items()
        }

    def ledger_rows(self, machine: str, stage: int, before: float, *, limit: int) -> Iterator[LedgerRow]:
        """Yield the rows of a stage that arrived before a time, the oldest first."""
        found = self._connection.execute(
            f'SELECT id, batch, coalesce(last_batch, batch), "begin", time, windows, layout, data, {ARRIVAL} '  # noqa: S608 - names are the package's own
            f"FROM ledger WHERE machine = ? AND stage = ? AND {ARRIVAL} < ? ORDER BY {ARRIVAL} LIMIT ?",
            (machine, stage, before, limit),
        )
        yield from (LedgerRow(*row) for row in found)

    def ledger_bytes(self, machine: str) -> int:
        """Return the size of the stored windows of a machine; reads the first page of each row."""
        found = self._connection.execute(
            "SELECT coalesce(sum(length(data) + length(layout)), 0) FROM ledger WHERE machine = ?", (machine,)
        )
        return int(found.fetchone()[0])

    def version(self) -> int:
        """Return the version of the tables."""
        return self._dialect.version(self._connection)

    def sizes(self) -> dict[str, TableSize]:
        """Return the number of rows and bytes in each table."""
        return self._dialect.sizes(self._connection)

    def damage(self) -> str | None:
        """Read all pages; return the first damage, or None."""
        return self._dialect.damage(self._connection)

    def free_pages(self) -> int:
        """Return the number of unused pages that the store has to free itself."""
        return self._dialect.free_pages(self._connection)

    def _page(
        self, kept: type[T_co], pick: RowSelection, condition: Statement = ("", ()), **equal: Value
    ) -> RowPage[T_co]:
        wanted = {name: value for name, value in equal.items() if value is not None}
        order, before = ("DESC", "<") if pick.newest_first else ("ASC", ">")
        clauses = ["time >= ?", "time < ?", *(f"{name} = ?" for name in wanted)]
        values: list[Value] = [pick.begin, pick.end, *wanted.values()]
        if condition[0]:
            clauses.append(condition[0])
            values += condition[1]
        if pick.machines:
            fits = [self._dialect.matches("machine", pattern) for pattern in pick.machines]
            clauses.append(f"({' OR '.join(sql for sql, _ in fits)})")
            values += [value for _, patterns in fits for value in patterns]
        if pick.after is not None:
            clauses.append(f"(time, id) {before} (?, ?)")
            values += parse_cursor(pick.after)
        found = self._connection.execute(
            f"SELECT * FROM {TABLES[kept]} WHERE {' AND '.join(clauses)} "  # noqa: S608 - names are this file's own, values are bound
            f"ORDER BY time {order}, id {order} LIMIT ?",
            (*values, pick.limit + 1),
        ).fetchall()
        rows = found[: pick.limit]
        cursor = f"{rows[-1]['time']!r},{rows[-1]['id']}" if rows else pick.after
        readable = self._readable(TABLES[kept], rows, partial(from_row, kept))
        return RowPage(tuple(readable), cursor, len(found) > pick.limit)

    def _readable(self, table: str, rows: Iterable[StoredRow], read: Callable[[StoredRow], T]) -> list[T]:
        """Return what rows keep; one whose content is damaged is left out and noted."""
        found = []
        for row in rows:
            try:
                found.append(read(row))
            except (DataError, ValueError, TypeError, LookupError) as error:
                text = f"{table}: a row of {utc_text(row['time'])} cannot be read"
                LOG.warning("%s (%s)", text, error)
                self.unreadable.append(text)
        return found
