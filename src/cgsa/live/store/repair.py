"""Replaces a damaged store by a new one with everything that is still readable.

The new file is complete before it takes the place of the damaged one, which stays beside it under another name. So a
repair may be interrupted at any time: the next start begins it anew, or ends it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from cgsa.events import AlarmChange
from cgsa.files import sync_path
from cgsa.live.commands import SERVICE
from cgsa.live.store.header import restore_header
from cgsa.live.store.mapping import TABLES, case_statement, from_row, insertion, to_row
from cgsa.live.store.rows import AuditEntry, StoredCase
from cgsa.live.store.salvage import LostRows, is_damage, salvage_rows
from cgsa.live.store.schema import MIGRATIONS

PARTS = ("", "-wal", "-shm")
"""What SQLite keeps of one database."""


@dataclass(frozen=True)
class TableRepair:
    """What was copied of one table."""

    table: str
    rows: int
    lost: tuple[LostRows, ...]
    unusable: int = 0
    """Rows that could be read and make no sense."""

    def __str__(self) -> str:
        more = f" and {self.unusable} unusable" if self.unusable else ""
        return f"{self.table}: {', '.join(map(str, self.lost)) or 'none'}{more}"


def repair_store(path: Path, cause: Exception, create: Callable[[Path], sqlite3.Connection]) -> str:
    """Replace a damaged store; return a message that says what is lost. ``create`` makes a new file."""
    building = Path(f"{path}.repairing")
    for end in PARTS:
        Path(f"{building}{end}").unlink(missing_ok=True)
    with closing(create(building)) as fresh:
        tables = _rescue(path, fresh)
        damaged = _free_name(path)
        text = _message(path, cause, damaged, tables)
        entry = AuditEntry(time.time(), SERVICE, "repair the store", result=text)
        fresh.execute(*insertion("audit", to_row(entry)))
        # Only then everything is in the file itself.
        fresh.execute("PRAGMA journal_mode = DELETE")
    sync_path(building)
    building.rename(_complete(path))
    _replace(path, damaged)
    return text


def finish_repair(path: Path) -> None:
    """End a repair that was interrupted when the new file was complete."""
    if _complete(path).exists():
        _replace(path, _free_name(path))


def _complete(path: Path) -> Path:
    """Return the name of a new file that is complete."""
    return Path(f"{path}.repaired")


def _replace(path: Path, damaged: Path) -> None:
    """Give the damaged store another name, and its own to the new one."""
    for end in PARTS:
        with suppress(FileNotFoundError):
            Path(f"{path}{end}").rename(f"{damaged}{end}")
    _complete(path).rename(path)
    sync_path(path.parent)


def _free_name(path: Path) -> Path:
    number = 1
    while (damaged := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return damaged


def _rescue(path: Path, fresh: sqlite3.Connection) -> list[TableRepair]:
    """Copy all tables, as far as they are readable."""
    fresh.execute("PRAGMA synchronous = OFF")
    # A comment is of use also if its case is lost.
    fresh.execute("PRAGMA foreign_keys = OFF")
    names = _counted_tables(fresh)
    try:
        old = _open_damaged(path)
    except sqlite3.DatabaseError:
        return [TableRepair(table, 0, (LostRows(None, None),)) for table in names]
    kinds = {table: kept for kept, table in TABLES.items()}
    with closing(old):
        # Of a table that is newer than the store, nothing is lost.
        present = _tables_of_version(old.execute("PRAGMA user_version").fetchone()[0])
        found = [_copy(old, fresh, table, kinds.get(table)) for table in names if table in present]
    _restore_cases(fresh)
    return found


def _counted_tables(connection: sqlite3.Connection) -> list[str]:
    """Return the tables with rows of machines and people."""
    return [str(row[0]) for row in connection.execute("SELECT name FROM sizes ORDER BY name")]


def _tables_of_version(version: int) -> list[str]:
    """Return the tables of a version of the store."""
    with closing(sqlite3.connect(":memory:")) as empty:
        for script in MIGRATIONS[:version]:
            empty.executescript(script)
        return _counted_tables(empty)


def _open_damaged(path: Path) -> sqlite3.Connection:
    """Return a connection to a damaged store, with the first page from its copy if it cannot be used otherwise."""
    try:
        return _connected(path)
    except sqlite3.DatabaseError as error:
        if not is_damage(error) or not restore_header(path):
            raise
    return _connected(path)


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _copy(old: sqlite3.Connection, fresh: sqlite3.Connection, table: str, kept: type[object] | None) -> TableRepair:
    """Copy the readable rows of a table; ``kept`` is what its rows must make sense as."""
    rows = unusable = 0
    lost: list[LostRows] = []
    fresh.row_factory = sqlite3.Row
    fresh.execute("BEGIN")
    try:
        for row in salvage_rows(old, table):
            if isinstance(row, LostRows):
                lost.append(row)
                continue
            if _insert(fresh, table, row, kept):
                rows += 1
            else:
                unusable += 1
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError) and "no such table" not in str(error):
            raise  # the disk, so that it is tried again
        lost.append(LostRows(None, None))
    fresh.execute("COMMIT")
    return TableRepair(table, rows, tuple(lost), unusable)


def _insert(fresh: sqlite3.Connection, table: str, row: sqlite3.Row, kept: type[object] | None) -> bool:
    """Insert a row as it is; return whether it makes sense."""
    fresh.execute("SAVEPOINT row")
    try:
        fresh.execute(*insertion(table, dict(zip(row.keys(), row, strict=True))))
        if kept is not None:
            # As it will be read: columns that an older version lacks have their defaults now.
            sql = f"SELECT * FROM {table} WHERE id = ?"  # noqa: S608 - a table of the store
            from_row(kept, fresh.execute(sql, (row["id"],)).fetchone())
    except (sqlite3.IntegrityError, sqlite3.DataError, ValueError, TypeError, LookupError):
        fresh.execute("ROLLBACK TO row")
        return False
    finally:
        fresh.execute("RELEASE row")
    return True


def _restore_cases(fresh: sqlite3.Connection) -> None:
    """Restore lost cases from their changes, each of which has the whole case."""
    table = TABLES[AlarmChange]
    missing = fresh.execute(
        f"SELECT * FROM {table} AS change WHERE NOT EXISTS (SELECT 1 FROM {TABLES[StoredCase]} AS found "  # noqa: S608 - tables of the store
        "WHERE found.machine = change.machine AND found.number = change.number) ORDER BY id"
    ).fetchall()
    for row in missing:
        fresh.execute(*case_statement(from_row(AlarmChange, row), row["position"], row["index"]))


def _message(path: Path, cause: Exception, damaged: Path, tables: list[TableRepair]) -> str:
    lost = [str(one) for one in tables if one.lost or one.unusable]
    copied = ", ".join(f"{one.rows} of {one.table}" for one in tables if one.rows)
    return (
        f"{path}: damaged ({cause}); renamed to {damaged.name} and replaced by a new one; "
        f"lost rows: {'; '.join(lost) or 'none'}; rows copied: {copied or 'none'}"
    )
