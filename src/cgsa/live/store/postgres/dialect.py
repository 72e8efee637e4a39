"""The SQL of PostgreSQL, where it differs from that of SQLite."""

from __future__ import annotations

from collections.abc import Mapping

from cgsa.live.store.dialect import ReadConnection
from cgsa.live.store.mapping import Statement
from cgsa.live.store.packing import to_text
from cgsa.live.store.postgres.schema import LEDGER_LOCK, LOCKS
from cgsa.live.store.rows import TableSize
from cgsa.live.store.tables import ARRIVAL

_LIKE = str.maketrans({"%": r"\%", "_": r"\_", "\\": r"\\", "*": "%", "?": "_"})


class PostgresDialect:
    """The SQL of PostgreSQL."""

    def matches(self, column: str, pattern: str) -> Statement:
        """Return the condition that a text fits a pattern with ``*`` and ``?``."""
        return f"{column} LIKE ?", (pattern.translate(_LIKE),)

    def contains(self, column: str, item: str) -> Statement:
        """Return the condition that a JSON list has an item."""
        # By its text, in which a quotation mark within an item has a backslash: some JSON is none for PostgreSQL.
        return f"strpos(',' || substr({column}, 2, length({column}) - 2) || ',', ?) > 0", (f",{to_text(item)},",)

    def old_rows(self, table: str, before: Mapping[str, float], limit: int) -> Statement:
        """Return the query for the ids of rows of machines that arrived before a time; it must not scan all rows."""
        # With an order and a limit for each machine, an index gives the rows, also where the planner expects many.
        old = f"machine = oldest.key AND {ARRIVAL} < oldest.value::double precision"
        sql = (
            "SELECT t.id FROM json_each_text(?::json) AS oldest "  # noqa: S608 - names are the package's own
            f"CROSS JOIN LATERAL (SELECT id FROM {table} WHERE {old} ORDER BY {ARRIVAL} LIMIT ?) AS t LIMIT ?"
        )
        return sql, (to_text(before), limit, limit)

    def stop_additions(self, machine: str) -> tuple[Statement, ...]:
        """Return what keeps other processes from adding to the ledger of a machine until the transaction ends."""
        sql = f"SELECT pg_advisory_xact_lock({LEDGER_LOCK}, hashtext(?) & {LOCKS - 1})"
        return ((sql, (machine,)),)

    def version(self, connection: ReadConnection) -> int:
        """Return the version of the tables."""
        return int(connection.execute("SELECT version FROM cgsa_store").fetchone()[0])

    def sizes(self, connection: ReadConnection) -> dict[str, TableSize]:
        """Return the number of rows as the server estimates it, and bytes on the disk, with indexes.

        Counting each row in one place would have all writers wait for each other.
        """
        found = connection.execute(
            "SELECT relname, greatest(n_live_tup, 0), pg_total_relation_size(relid) FROM pg_stat_user_tables "
            "WHERE schemaname = current_schema() AND relname NOT IN ('cgsa_store', 'writers') ORDER BY relname"
        )
        return {row[0]: TableSize(int(row[1]), int(row[2])) for row in found}

    def damage(self, connection: ReadConnection) -> str | None:
        """Return None: the server checks its own pages, and repairs are for its administrator."""
        del connection
        return None

    def free_pages(self, connection: ReadConnection) -> int:
        """Return 0: the server frees its own pages (autovacuum)."""
        del connection
        return 0
