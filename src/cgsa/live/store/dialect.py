"""What the SQL of the store needs that is not the same in all databases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from cgsa.live.store.mapping import Statement, Value
from cgsa.live.store.packing import to_text
from cgsa.live.store.rows import TableSize
from cgsa.live.store.tables import ARRIVAL


class FoundRows(Protocol):
    """The answer to a query."""

    def fetchone(self) -> Any:
        """Return the next row; None without one."""

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""

    def __iter__(self) -> Iterator[Any]:
        """Yield all rows that are left."""


class ReadConnection(Protocol):
    """A connection in a transaction that sees one state of the database."""

    def execute(self, sql: str, values: Sequence[Value] = (), /) -> FoundRows:
        """Run a query with question marks for its values."""


class Dialect(Protocol):
    """The differences between databases."""

    def matches(self, column: str, pattern: str) -> Statement:
        """Return the condition that a text fits a pattern with ``*`` and ``?``."""

    def contains(self, column: str, item: str) -> Statement:
        """Return the condition that a JSON list has an item."""

    def old_rows(self, table: str, before: Mapping[str, float], limit: int) -> Statement:
        """Return the query for the ids of rows of machines that arrived before a time; it must not scan all rows."""

    def stop_additions(self, machine: str) -> tuple[Statement, ...]:
        """Return what keeps others from adding to the ledger of a machine until the transaction ends."""

    def version(self, connection: ReadConnection) -> int:
        """Return the version of the tables."""

    def sizes(self, connection: ReadConnection) -> dict[str, TableSize]:
        """Return the number of rows and bytes in each table."""

    def damage(self, connection: ReadConnection) -> str | None:
        """Read everything; return the first damage, or None."""

    def free_pages(self, connection: ReadConnection) -> int:
        """Return the number of unused pages that the store has to free itself."""


class SqliteDialect:
    """The SQL of SQLite."""

    def matches(self, column: str, pattern: str) -> Statement:
        """Return the condition that a text fits a pattern with ``*`` and ``?``."""
        return f"{column} GLOB ?", (pattern,)

    def contains(self, column: str, item: str) -> Statement:
        """Return the condition that a JSON list has an item."""
        return f"EXISTS (SELECT 1 FROM json_each({column}) WHERE json_each.value = ?)", (item,)  # noqa: S608 - names are the package's own

    def old_rows(self, table: str, before: Mapping[str, float], limit: int) -> Statement:
        """Return the query for the ids of rows of machines that arrived before a time; it must not scan all rows."""
        # A cross join is done in its order: by machine, with an index.
        joined = f"CROSS JOIN {table} AS t ON t.machine = oldest.key AND {ARRIVAL} < oldest.value"
        return f"SELECT t.id FROM json_each(?) AS oldest {joined} LIMIT ?", (to_text(before), limit)  # noqa: S608 - names are the package's own

    def stop_additions(self, machine: str) -> tuple[Statement, ...]:
        """Return nothing: only one transaction writes at a time."""
        del machine
        return ()

    def version(self, connection: ReadConnection) -> int:
        """Return the version of the tables."""
        return int(connection.execute("PRAGMA user_version").fetchone()[0])

    def sizes(self, connection: ReadConnection) -> dict[str, TableSize]:
        """Return the number of rows and bytes in each table, as triggers count them."""
        found = connection.execute("SELECT name, rows, bytes FROM sizes ORDER BY name")
        return {row["name"]: TableSize(row["rows"], row["bytes"]) for row in found}

    def damage(self, connection: ReadConnection) -> str | None:
        """Read all pages; return the first damage, or None."""
        found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
        return None if found == "ok" else found

    def free_pages(self, connection: ReadConnection) -> int:
        """Return the number of unused pages in the file."""
        return int(connection.execute("PRAGMA freelist_count").fetchone()[0])
