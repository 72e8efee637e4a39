"""Opens the file: creates a new one, migrates an old one, renames a damaged one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from cgsa.errors import DataError
from cgsa.events import AlarmChange, Comment, Label
from cgsa.live.store.mapping import TABLES, from_row, insertion
from cgsa.live.store.rows import AuditEntry, MaintenanceWindow, StoredCase, StoredToken
from cgsa.live.store.schema import APPLICATION, MIGRATIONS

BUSY_SECONDS = 5.0
"""How long to wait for another program that is writing, such as a backup."""
LOG_BYTES = 64 * 2**20
"""Size to which the write-ahead log is truncated."""

_RESCUED: tuple[type[object], ...] = (
    AuditEntry,
    StoredToken,
    StoredCase,
    AlarmChange,
    Comment,
    Label,
    MaintenanceWindow,
)
"""Rows that no journal can restore, or not for long; cases before rows that refer to them."""


class _DamagedError(Exception):
    """The file is damaged; never shown to users, since the file is renamed."""


def open_to_write(path: Path) -> tuple[sqlite3.Connection, list[str]]:
    """Return a connection for writing, and messages about repairs."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The file contains token hashes and the audit log, so only its owner may read it.
        path.touch(mode=0o600)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})") from error
    try:
        try:
            return _prepared(path), []
        except sqlite3.OperationalError:
            raise  # the disk or its permissions, not the content of the file
        except (sqlite3.DatabaseError, _DamagedError) as error:
            damaged = _rename_damaged(path)
            connection = _prepared(path)
            rescued = _rescue(damaged, connection)
            return connection, [
                f"{path}: damaged ({error}); renamed to {damaged.name} and replaced by a new one; {rescued}"
            ]
    except (sqlite3.Error, OSError) as error:
        raise DataError(f"{path}: cannot be opened ({error})") from error


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Return a connection for reading only."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    return connection


def _prepared(path: Path) -> sqlite3.Connection:
    """Return a connection to an intact store of this version."""
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        _check_file(connection, path)
        # Must come before the first table is created.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        _enable_log(connection, path)
        connection.execute("PRAGMA foreign_keys = ON")
        _migrate(connection)
        connection.execute("UPDATE meta SET clean = 0")
    except BaseException:
        connection.close()
        raise
    return connection


def _enable_log(connection: sqlite3.Connection, path: Path) -> None:
    """Use a write-ahead log, so that readers and the writer never wait for each other."""
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise DataError(f"{path}: no write-ahead log here ({mode}); expected a local disk, not a network drive")
    connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")


def _migrate(connection: sqlite3.Connection) -> None:
    """Migrate the schema to this version, one transaction per step."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    for number, script in enumerate(MIGRATIONS[version:], version + 1):
        ours = f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {number};"
        connection.executescript(f"BEGIN IMMEDIATE; {script} {ours} COMMIT;")


def _check_file(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file of another program or a newer cgsa, and detect damage."""
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        return
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise DataError(f"{path}: a database, but not a store of cgsa; choose another file")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise DataError(f"{path}: store of version {version}; this cgsa reads versions up to {len(MIGRATIONS)}")
    if not connection.execute("SELECT clean FROM meta").fetchone()[0]:
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise _DamagedError(found)


def _rename_damaged(path: Path) -> Path:
    """Rename a store and its log to the first free name; return that name."""
    number = 1
    while (damaged := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    for end in ("", "-wal", "-shm"):
        part = Path(f"{path}{end}")
        if part.exists():
            part.rename(f"{damaged}{end}")
    return damaged


def _rescue(damaged: Path, connection: sqlite3.Connection) -> str:
    """Copy what no journal can restore, as far as it is readable; return a message about it."""
    copied = {TABLES[kept]: 0 for kept in _RESCUED}
    complete = True
    try:
        with closing(connect_to_read(damaged)) as old:
            for kept in _RESCUED:
                table = TABLES[kept]
                connection.execute("BEGIN IMMEDIATE")
                try:
                    for row in old.execute(f"SELECT * FROM {table}"):  # noqa: S608 - the tables above
                        from_row(kept, row)
                        connection.execute(*insertion(table, dict(zip(row.keys(), row, strict=True))))
                        copied[table] += 1
                except (sqlite3.Error, ValueError, TypeError, LookupError):
                    # Rows behind the damage are not read, since they may be anything.
                    complete = False
                connection.execute("COMMIT")
    except sqlite3.Error:
        complete = False
    counts = ", ".join(f"{count} of {table}" for table, count in copied.items())
    return f"rows copied: {counts}" + ("" if complete else "; the others are unreadable")
