"""Opens the file: creates a new one, migrates an old one, repairs a damaged one."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from cgsa.errors import DataError
from cgsa.live.store.header import read_header, save_header
from cgsa.live.store.repair import finish_repair, repair_store
from cgsa.live.store.salvage import is_damage
from cgsa.live.store.schema import APPLICATION, MIGRATIONS

BUSY_SECONDS = 5.0
"""How long to wait for another program that is writing, such as a backup."""
LOG_BYTES = 64 * 2**20
"""Size to which the write-ahead log is truncated."""


class DamagedStoreError(Exception):
    """A check has found damage; never shown to users, since the file is repaired."""


def open_to_write(path: Path) -> tuple[sqlite3.Connection, list[str]]:
    """Return a connection for writing, and messages about repairs."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The file contains token hashes and the audit log, so only its owner may read it.
        path.touch(mode=0o600)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})") from error
    try:
        finish_repair(path)
        try:
            return _opened(path), []
        except (sqlite3.DatabaseError, DamagedStoreError) as error:
            if not isinstance(error, DamagedStoreError) and not is_damage(error):
                raise  # the disk or its permissions, not the content of the file
            return repair_damaged(path, error)
    except (sqlite3.Error, OSError) as error:
        raise DataError(f"{path}: cannot be opened ({error})") from error


def repair_damaged(path: Path, cause: Exception) -> tuple[sqlite3.Connection, list[str]]:
    """Replace a damaged store; return a connection for writing, and a message about what is lost."""
    message = repair_store(path, cause, _prepared)
    return _opened(path), [message]


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Return a connection for reading only."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    return connection


def close_clean(connection: sqlite3.Connection, path: Path) -> None:
    """Close a store after its last write, and keep its first page."""
    connection.execute("UPDATE meta SET clean = 1")
    connection.close()
    save_header(path, read_header(path))


def _opened(path: Path) -> sqlite3.Connection:
    """Return a connection to an intact store, whose first page is kept."""
    if not path.stat().st_size:
        close_clean(_prepared(path), path)
    page = read_header(path)
    connection = _prepared(path)
    save_header(path, page)
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
            raise DamagedStoreError(found)
