"""The tables in SQLite, and the migrations from older versions; PostgreSQL has its own in ``postgres/schema.py``.

From version 12 on, each version adds one script to both. Write it once, in the types of SQLite, in ``tables.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from cgsa.live.store.tables import (
    BY_STAGE,
    CHANGE,
    COMMISSIONING,
    FIRST_TABLES,
    FLEET_TABLES,
    LEVELS,
    NOTIFICATION_TABLES,
    OPERATION,
    RIGHTS,
    SENSOR_QUESTION,
    TREND_TABLES,
    WITH_ARRIVAL,
    WITH_THINNING,
    StoredTable,
)

APPLICATION = 0x63677361
"""SQLite's application ID of the file: the bytes of "cgsa"."""


def _triggers(name: str, columns: Sequence[str]) -> str:
    """Return the SQL of triggers that count the rows of a table and the bytes of some columns."""
    new, old = (
        " + ".join(f"coalesce(length(CAST({row}.{one} AS BLOB)), 0)" for one in columns) for row in ("NEW", "OLD")
    )
    count = "BEGIN UPDATE sizes SET rows = rows + {}, bytes = bytes + {} WHERE name = '{}'; END;"
    return f"""
        CREATE TRIGGER {name}_added AFTER INSERT ON {name} {count.format(1, new, name)}
        CREATE TRIGGER {name}_changed AFTER UPDATE ON {name} {count.format(0, f"{new} - ({old})", name)}
        CREATE TRIGGER {name}_removed AFTER DELETE ON {name} {count.format(-1, f"-({old})", name)}
    """


def _create(table: StoredTable) -> str:
    """Return the SQL of a table, its indexes, and triggers that count its rows: summing millions takes seconds."""
    return f"""
        CREATE TABLE {table.name} (id INTEGER PRIMARY KEY, {table.columns}{table.constraints});
        INSERT INTO sizes VALUES ('{table.name}', 0, 0);
        {_triggers(table.name, table.names)}
    {table.indexes()}"""  # noqa: S608 - the names of the package's own tables


# The third is for inserts that replace: they delete rows without firing a trigger.
_AUDIT_STAYS = "".join(
    f"CREATE TRIGGER audit_stays_{number} BEFORE {act} BEGIN SELECT RAISE(ABORT, 'the audit is only added to'); END;"
    for number, act in enumerate(
        ("UPDATE ON audit", "DELETE ON audit", "INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id)")
    )
)

_OWN_TABLES = """
    CREATE TABLE meta (clean INTEGER NOT NULL, flushes INTEGER NOT NULL);
    INSERT INTO meta VALUES (1, 0);
    CREATE TABLE sizes (name TEXT PRIMARY KEY, rows INTEGER NOT NULL, bytes INTEGER NOT NULL);
"""

# The two columns before it stay uncounted: rows that have them were not counted with them.
_WITH_LEVELS = LEVELS + "".join(f"DROP TRIGGER diagnoses_{when};" for when in ("added", "changed", "removed"))
_WITH_LEVELS += _triggers("diagnoses", [*FIRST_TABLES[0].names, "levels"])

# After a kill, batches are written again; those that a thinned row contains are ignored.
_WRITTEN_ONCE = """
    CREATE TRIGGER ledger_written_once BEFORE INSERT ON ledger WHEN EXISTS (
        SELECT 1 FROM ledger WHERE machine = NEW.machine AND last_batch >= NEW.batch AND batch <= NEW.batch
    ) BEGIN SELECT RAISE(IGNORE); END;
"""

# The triggers of the tables do not count the columns that were added alone: they are short, or mostly empty.
MIGRATIONS: tuple[str, ...] = (
    "".join([_OWN_TABLES, *map(_create, FIRST_TABLES), _AUDIT_STAYS]),
    SENSOR_QUESTION,
    COMMISSIONING,
    _WITH_LEVELS,
    CHANGE,
    OPERATION,
    RIGHTS,
    WITH_ARRIVAL,
    "".join(map(_create, NOTIFICATION_TABLES)),
    "".join(map(_create, TREND_TABLES)),
    WITH_THINNING + _WRITTEN_ONCE + BY_STAGE,
    "".join(map(_create, FLEET_TABLES)),
)
"""The SQL from each version of the schema to the next; a published migration is never changed."""
