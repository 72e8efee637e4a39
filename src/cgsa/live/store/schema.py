"""The tables as SQL, and the migrations from older versions.

Columns are written out here, not derived from the dataclasses of the events: a published migration must never change,
also when an event gets a new field.
"""

from __future__ import annotations

from collections.abc import Sequence

ARRIVAL = "coalesce(arrived, time)"
"""When a row was stored, as far as that is known; there is an index of it."""
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


def _table(name: str, columns: str, constraints: str = "", index_columns: str = "machine, time") -> str:
    """Return the SQL of a table, its indexes, and triggers that count its rows: summing millions takes seconds."""
    names = _names(columns)
    sql = f"""
        CREATE TABLE {name} (id INTEGER PRIMARY KEY, {columns}{constraints});
        INSERT INTO sizes VALUES ('{name}', 0, 0);
        {_triggers(name, names)}
    """  # noqa: S608 - the names below
    if "time" in names:
        sql += f"CREATE INDEX {name}_of_machine ON {name} ({index_columns});"
        sql += f"CREATE INDEX {name}_in_time ON {name} (time);"
    return sql


def _names(columns: str) -> list[str]:
    return [column.split()[0] for column in columns.split(", ")]


_PLACE = 'machine TEXT NOT NULL, position INTEGER NOT NULL, "index" INTEGER NOT NULL, time REAL NOT NULL'
_ONCE = ', UNIQUE (machine, position, "index")'
_OF_CASE = f"{_ONCE}, FOREIGN KEY (machine, number) REFERENCES cases (machine, number)"

_FIRST_TABLES = {
    "diagnoses": (
        (
            "machine TEXT NOT NULL, batch INTEGER NOT NULL, time REAL NOT NULL, source TEXT NOT NULL, "
            '"begin" REAL NOT NULL, windows INTEGER NOT NULL, verdict TEXT NOT NULL, probabilities TEXT NOT NULL, '
            "accepted INTEGER, deviation REAL, state TEXT, alarm TEXT, flagged INTEGER NOT NULL, response REAL, "
            "agreement REAL, coverage REAL, accuracy REAL, note TEXT"
        ),
        ", UNIQUE (machine, batch)",
    ),
    "ledger": (
        (
            'machine TEXT NOT NULL, batch INTEGER NOT NULL, "begin" REAL NOT NULL, time REAL NOT NULL, '
            "windows INTEGER NOT NULL, layout TEXT NOT NULL, data BLOB NOT NULL"
        ),
        ", UNIQUE (machine, batch)",
        # Every column that selects an interval: rows with blobs are slow to read.
        'machine, time, "begin", windows',
    ),
    "notes": (f"{_PLACE}, topic TEXT NOT NULL, text TEXT NOT NULL, details TEXT NOT NULL", _ONCE),
    "cases": (
        (
            f"{_PLACE}, number INTEGER NOT NULL, state TEXT NOT NULL, severity TEXT NOT NULL, fault TEXT NOT NULL, "
            "faults TEXT NOT NULL, opened REAL NOT NULL, changed REAL NOT NULL, closed REAL, raised INTEGER NOT NULL, "
            "notified INTEGER NOT NULL, acknowledged_by TEXT, shelved_until REAL"
        ),
        ", UNIQUE (machine, number)",
    ),
    "alarm_changes": (
        (
            f"{_PLACE}, number INTEGER NOT NULL, change TEXT NOT NULL, fault TEXT NOT NULL, notify INTEGER NOT NULL, "
            'who TEXT, text TEXT NOT NULL, "case" TEXT NOT NULL'
        ),
        _OF_CASE,
    ),
    "comments": (f"{_PLACE}, number INTEGER NOT NULL, who TEXT NOT NULL, text TEXT NOT NULL", _OF_CASE),
    "labels": (
        f'{_PLACE}, number INTEGER, who TEXT NOT NULL, state TEXT NOT NULL, "begin" REAL NOT NULL, "end" REAL NOT NULL',
        _OF_CASE,
    ),
    "snippets": (
        (
            f"{_PLACE}, number INTEGER NOT NULL, sample_rate REAL NOT NULL, channels TEXT NOT NULL, "
            "samples INTEGER NOT NULL, data BLOB NOT NULL"
        ),
        _OF_CASE,
    ),
    "audit": (
        (
            "time REAL NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL, machine TEXT, origin TEXT NOT NULL, "
            "result TEXT NOT NULL, details TEXT NOT NULL"
        ),
    ),
    "tokens": (
        (
            "name TEXT NOT NULL UNIQUE, role TEXT NOT NULL, digest TEXT NOT NULL, created REAL NOT NULL, "
            "last_used REAL, revoked REAL"
        ),
    ),
}

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

_WITH_LEVELS = "ALTER TABLE diagnoses ADD COLUMN levels TEXT;" + "".join(
    f"DROP TRIGGER diagnoses_{when};" for when in ("added", "changed", "removed")
)
# The two columns before it stay uncounted: rows that have them were not counted with them.
_WITH_LEVELS += _triggers("diagnoses", [*_names(_FIRST_TABLES["diagnoses"][0]), "levels"])

# When a row was stored, by the clock of this computer. Older rows have no such time: that of their stream counts, so
# that millions of them need not be rewritten. The triggers of the tables do not count the column; it is short.
_WITH_ARRIVAL = "".join(
    f"""
        ALTER TABLE {table} ADD COLUMN arrived REAL;
        CREATE INDEX {table}_by_arrival ON {table} (machine, {ARRIVAL});
    """
    for table in ("ledger", "diagnoses", "notes", "snippets")
)

# Cases are referred to by number only: those of a damaged store may be gone, and what was sent is still known.
_WITH_NOTIFICATIONS = _table(
    "deliveries",
    f"{_PLACE}, number INTEGER NOT NULL, sink TEXT NOT NULL, state TEXT NOT NULL, event TEXT NOT NULL, "
    "reason TEXT NOT NULL, attempts INTEGER NOT NULL, error TEXT NOT NULL, finished REAL",
    ', UNIQUE (machine, position, "index", sink)',
    "machine, number, time",
) + _table(
    "maintenance",
    'number INTEGER NOT NULL UNIQUE, machines TEXT NOT NULL, "begin" REAL NOT NULL, "end" REAL NOT NULL, '
    "repeats TEXT NOT NULL, zone TEXT NOT NULL, who TEXT NOT NULL, reason TEXT NOT NULL, created REAL NOT NULL, "
    "ended REAL, ended_by TEXT",
)
_WITH_TRENDS = _table(
    "trends",
    "machine TEXT NOT NULL, time REAL NOT NULL, seconds INTEGER NOT NULL, batches INTEGER NOT NULL, health REAL, "
    'pieces INTEGER NOT NULL, sample_rate REAL NOT NULL, channels TEXT NOT NULL, "values" BLOB NOT NULL, '
    "spectrum BLOB NOT NULL",
    ", UNIQUE (machine, seconds, time)",
    "machine, seconds, time",
) + _table(
    "healthy_signals",
    "machine TEXT NOT NULL, time REAL NOT NULL, sample_rate REAL NOT NULL, channels TEXT NOT NULL, "
    "conditions TEXT NOT NULL, samples INTEGER NOT NULL, data BLOB NOT NULL",
)

# A thinned row takes the place of those of several batches. After a kill, batches are written again; those that a
# thinned row contains are ignored.
_WITH_THINNING = """
    ALTER TABLE ledger ADD COLUMN last_batch INTEGER;
    ALTER TABLE ledger ADD COLUMN stage INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX ledger_thinned ON ledger (machine, last_batch) WHERE last_batch NOTNULL;
    CREATE TRIGGER ledger_written_once BEFORE INSERT ON ledger WHEN EXISTS (
        SELECT 1 FROM ledger WHERE machine = NEW.machine AND last_batch >= NEW.batch AND batch <= NEW.batch
    ) BEGIN SELECT RAISE(IGNORE); END;
"""
_BY_STAGE = f"CREATE INDEX ledger_by_stage ON ledger (machine, stage, {ARRIVAL});"

MIGRATIONS: tuple[str, ...] = (
    "".join([_OWN_TABLES, *(_table(name, *parts) for name, parts in _FIRST_TABLES.items()), _AUDIT_STAYS]),
    # The triggers of the table do not count the column: it is short, and mostly empty.
    "ALTER TABLE diagnoses ADD COLUMN sensor_question TEXT;",
    # The triggers of the table do not count the column; it is short.
    "ALTER TABLE diagnoses ADD COLUMN commissioning TEXT;",
    _WITH_LEVELS,
    # The triggers of the table do not count the column; it is short.
    "ALTER TABLE diagnoses ADD COLUMN change TEXT;",
    # The triggers of the table do not count the column; it is short.
    "ALTER TABLE diagnoses ADD COLUMN operation TEXT;",
    # The triggers of the table do not count the columns; they are short.
    """
        ALTER TABLE tokens ADD COLUMN machines TEXT NOT NULL DEFAULT '[]';
        ALTER TABLE tokens ADD COLUMN expires REAL;
        ALTER TABLE tokens ADD COLUMN previous TEXT;
        ALTER TABLE tokens ADD COLUMN previous_until REAL;
    """,
    _WITH_ARRIVAL,
    _WITH_NOTIFICATIONS,
    _WITH_TRENDS,
    _WITH_THINNING + _BY_STAGE,
)
"""The SQL from each version of the schema to the next; a published migration is never changed."""
