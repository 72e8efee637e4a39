"""The tables of the store, described once; each dialect renders its SQL from them.

A description is part of the published migrations, so it never changes: a later version adds a step of its own. Columns
are written out here, not derived from the dataclasses of the events, which may get new fields. Types are those of
SQLite; PostgreSQL has others for them.
"""

from __future__ import annotations

from dataclasses import dataclass

ARRIVAL = "coalesce(arrived, time)"
"""When a row was stored, as far as that is known; there is an index of it."""


@dataclass(frozen=True)
class StoredTable:
    """A table; each has also a column ``id``, its key."""

    name: str
    columns: str
    """Name and type of each, separated by commas."""
    constraints: str = ""
    index_columns: str = "machine, time"
    """Columns of the index for the rows of a machine."""

    @property
    def names(self) -> list[str]:
        """Names of the columns, as they are written in SQL."""
        return [column.split()[0] for column in self.columns.split(", ")]

    def indexes(self, last: str = "") -> str:
        """Return the SQL of the indexes, which only tables with times have; ``last`` is a column to put behind."""
        if "time" not in self.names:
            return ""
        return (
            f"CREATE INDEX {self.name}_of_machine ON {self.name} ({self.index_columns}{last});"
            f"CREATE INDEX {self.name}_in_time ON {self.name} (time{last});"
        )


_PLACE = 'machine TEXT NOT NULL, position INTEGER NOT NULL, "index" INTEGER NOT NULL, time REAL NOT NULL'
_ONCE = ', UNIQUE (machine, position, "index")'
_OF_CASE = f"{_ONCE}, FOREIGN KEY (machine, number) REFERENCES cases (machine, number)"

FIRST_TABLES = (
    StoredTable(
        "diagnoses",
        "machine TEXT NOT NULL, batch INTEGER NOT NULL, time REAL NOT NULL, source TEXT NOT NULL, "
        '"begin" REAL NOT NULL, windows INTEGER NOT NULL, verdict TEXT NOT NULL, probabilities TEXT NOT NULL, '
        "accepted INTEGER, deviation REAL, state TEXT, alarm TEXT, flagged INTEGER NOT NULL, response REAL, "
        "agreement REAL, coverage REAL, accuracy REAL, note TEXT",
        ", UNIQUE (machine, batch)",
    ),
    StoredTable(
        "ledger",
        'machine TEXT NOT NULL, batch INTEGER NOT NULL, "begin" REAL NOT NULL, time REAL NOT NULL, '
        "windows INTEGER NOT NULL, layout TEXT NOT NULL, data BLOB NOT NULL",
        ", UNIQUE (machine, batch)",
        # Every column that selects an interval: rows with blobs are slow to read.
        'machine, time, "begin", windows',
    ),
    StoredTable("notes", f"{_PLACE}, topic TEXT NOT NULL, text TEXT NOT NULL, details TEXT NOT NULL", _ONCE),
    StoredTable(
        "cases",
        f"{_PLACE}, number INTEGER NOT NULL, state TEXT NOT NULL, severity TEXT NOT NULL, fault TEXT NOT NULL, "
        "faults TEXT NOT NULL, opened REAL NOT NULL, changed REAL NOT NULL, closed REAL, raised INTEGER NOT NULL, "
        "notified INTEGER NOT NULL, acknowledged_by TEXT, shelved_until REAL",
        ", UNIQUE (machine, number)",
    ),
    StoredTable(
        "alarm_changes",
        f"{_PLACE}, number INTEGER NOT NULL, change TEXT NOT NULL, fault TEXT NOT NULL, notify INTEGER NOT NULL, "
        'who TEXT, text TEXT NOT NULL, "case" TEXT NOT NULL',
        _OF_CASE,
    ),
    StoredTable("comments", f"{_PLACE}, number INTEGER NOT NULL, who TEXT NOT NULL, text TEXT NOT NULL", _OF_CASE),
    StoredTable(
        "labels",
        f'{_PLACE}, number INTEGER, who TEXT NOT NULL, state TEXT NOT NULL, "begin" REAL NOT NULL, "end" REAL NOT NULL',
        _OF_CASE,
    ),
    StoredTable(
        "snippets",
        f"{_PLACE}, number INTEGER NOT NULL, sample_rate REAL NOT NULL, channels TEXT NOT NULL, "
        "samples INTEGER NOT NULL, data BLOB NOT NULL",
        _OF_CASE,
    ),
    StoredTable(
        "audit",
        "time REAL NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL, machine TEXT, origin TEXT NOT NULL, "
        "result TEXT NOT NULL, details TEXT NOT NULL",
    ),
    StoredTable(
        "tokens",
        "name TEXT NOT NULL UNIQUE, role TEXT NOT NULL, digest TEXT NOT NULL, created REAL NOT NULL, "
        "last_used REAL, revoked REAL",
    ),
)

# Cases are referred to by number only: those of a damaged store may be gone, and what was sent is still known.
NOTIFICATION_TABLES = (
    StoredTable(
        "deliveries",
        f"{_PLACE}, number INTEGER NOT NULL, sink TEXT NOT NULL, state TEXT NOT NULL, event TEXT NOT NULL, "
        "reason TEXT NOT NULL, attempts INTEGER NOT NULL, error TEXT NOT NULL, finished REAL",
        ', UNIQUE (machine, position, "index", sink)',
        "machine, number, time",
    ),
    StoredTable(
        "maintenance",
        'number INTEGER NOT NULL UNIQUE, machines TEXT NOT NULL, "begin" REAL NOT NULL, "end" REAL NOT NULL, '
        "repeats TEXT NOT NULL, zone TEXT NOT NULL, who TEXT NOT NULL, reason TEXT NOT NULL, created REAL NOT NULL, "
        "ended REAL, ended_by TEXT",
    ),
)
TREND_TABLES = (
    StoredTable(
        "trends",
        "machine TEXT NOT NULL, time REAL NOT NULL, seconds INTEGER NOT NULL, batches INTEGER NOT NULL, health REAL, "
        'pieces INTEGER NOT NULL, sample_rate REAL NOT NULL, channels TEXT NOT NULL, "values" BLOB NOT NULL, '
        "spectrum BLOB NOT NULL",
        ", UNIQUE (machine, seconds, time)",
        "machine, seconds, time",
    ),
    StoredTable(
        "healthy_signals",
        "machine TEXT NOT NULL, time REAL NOT NULL, sample_rate REAL NOT NULL, channels TEXT NOT NULL, "
        "conditions TEXT NOT NULL, samples INTEGER NOT NULL, data BLOB NOT NULL",
    ),
)
FLEET_TABLES = (
    StoredTable(
        "claims",
        "machine TEXT NOT NULL UNIQUE, version INTEGER NOT NULL, epoch INTEGER NOT NULL, owner TEXT NOT NULL",
    ),
    StoredTable("machine_statuses", "machine TEXT NOT NULL UNIQUE, status TEXT NOT NULL"),
)

SENSOR_QUESTION = "ALTER TABLE diagnoses ADD COLUMN sensor_question TEXT;"
COMMISSIONING = "ALTER TABLE diagnoses ADD COLUMN commissioning TEXT;"
LEVELS = "ALTER TABLE diagnoses ADD COLUMN levels TEXT;"
CHANGE = "ALTER TABLE diagnoses ADD COLUMN change TEXT;"
OPERATION = "ALTER TABLE diagnoses ADD COLUMN operation TEXT;"
RIGHTS = """
        ALTER TABLE tokens ADD COLUMN machines TEXT NOT NULL DEFAULT '[]';
        ALTER TABLE tokens ADD COLUMN expires REAL;
        ALTER TABLE tokens ADD COLUMN previous TEXT;
        ALTER TABLE tokens ADD COLUMN previous_until REAL;
    """
# When a row was stored, by the clock of this computer. Older rows have no such time: that of their stream counts, so
# that millions of them need not be rewritten.
WITH_ARRIVAL = "".join(
    f"""
        ALTER TABLE {table} ADD COLUMN arrived REAL;
        CREATE INDEX {table}_by_arrival ON {table} (machine, {ARRIVAL});
    """
    for table in ("ledger", "diagnoses", "notes", "snippets")
)
# A thinned row takes the place of those of several batches.
WITH_THINNING = """
    ALTER TABLE ledger ADD COLUMN last_batch INTEGER;
    ALTER TABLE ledger ADD COLUMN stage INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX ledger_thinned ON ledger (machine, last_batch) WHERE last_batch NOTNULL;"""
BY_STAGE = f"CREATE INDEX ledger_by_stage ON ledger (machine, stage, {ARRIVAL});"
