"""Reads the rows of a damaged store that are still readable, and says which are lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

LAST_ID = 2**62
DAMAGE_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


@dataclass(frozen=True)
class LostRows:
    """Rows of a table that can no longer be read."""

    begin: float | None
    """Time of the last row before them; None if they are the first."""
    end: float | None
    """Time of the first row after them; None if they are the last."""

    def __str__(self) -> str:
        begin, end = (None if time is None else utc_text(time) for time in (self.begin, self.end))
        if begin is None:
            return "all" if end is None else f"those before {end}"
        return f"those after {begin}" if end is None else f"those from {begin} to {end}"


def is_damage(error: BaseException) -> bool:
    """Return whether an error shows that a file is damaged: not full, locked or unreadable at present."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, sqlite3.Error) and getattr(found, "sqlite_errorcode", 0) & 0xFF in DAMAGE_CODES:
            return True
        found = found.__cause__
    return False


def salvage_rows(connection: sqlite3.Connection, table: str) -> Iterator[sqlite3.Row | LostRows]:
    """Yield the readable rows of a table in the order of their ids, and where some are lost.

    The rows are found by their ids alone, so damage of an index costs nothing. Damage of a page costs its rows, and
    those of the pages that only it refers to.
    """
    after, time = -1, None
    lost = False
    while True:
        try:
            for row in connection.execute(f"SELECT * FROM {table} WHERE id > ? ORDER BY id", (after,)):  # noqa: S608 - a table of the store
                if lost:
                    yield LostRows(time, row["time"] if "time" in row.keys() else None)  # noqa: SIM118 - a row has no `in`
                    lost = False
                yield row
                after, time = row["id"], row["time"] if "time" in row.keys() else None  # noqa: SIM118 - as above
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            lost = True
            following = _first_readable(connection, table, after)
            if following is None:
                break
            after = following - 1
        else:
            break
    if lost:
        yield LostRows(time, None)


def _first_readable(connection: sqlite3.Connection, table: str, after: int) -> int | None:
    """Return the id of the first readable row behind damage; None if none follows."""

    def probe(begin: int) -> int | None:
        sql = f"SELECT * FROM {table} WHERE id > ? ORDER BY id LIMIT 1"  # noqa: S608 - a table of the store
        row = connection.execute(sql, (begin,)).fetchone()
        return None if row is None else int(row["id"])

    # Ever further until a row can be read, and then back to the first of them.
    step, found = 1, None
    while after + step < LAST_ID:
        try:
            found = probe(after + step)
        except sqlite3.DatabaseError:
            step *= 2
        else:
            break
    else:
        return None
    damaged, readable = after + step // 2, after + step
    while readable - damaged > 1:
        middle = (damaged + readable) // 2
        try:
            found, readable = probe(middle), middle
        except sqlite3.DatabaseError:
            damaged = middle
    return found


def utc_text(time: float) -> str:
    """Return a time as text; one beyond the calendar, as damage may leave it, as its number."""
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{time:g} s"
