"""Opens the file: a new one is made, an older one brought up, a damaged one put aside."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from cgsa.errors import DataError
from cgsa.events import AlarmChange, Comment, Label
from cgsa.live.store.mapping import TABLES, from_row, insertion
from cgsa.live.store.rows import AuditEntry, StoredCase, StoredToken
from cgsa.live.store.schema import APPLICATION, MIGRATIONS

BUSY_SECONDS = 5.0
"""How long to wait for another program that writes, such as a backup."""
LOG_BYTES = 64 * 2**20
"""What the log keeps of its room once it was longer."""

_SAVED: tuple[type[object], ...] = (AuditEntry, StoredToken, StoredCase, AlarmChange, Comment, Label)
"""Rows that no journal can restore, or not for long; cases before what refers to them."""


class _DamagedError(Exception):
    """The file does not hold together; never shown, the file is put aside."""


def open_to_write(path: Path) -> tuple[sqlite3.Connection, list[str]]:
    """Return a connection to write, and what had to be done for it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Tokens and what people did are nobody else's business.
        path.touch(mode=0o600)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})") from error
    try:
        try:
            return _prepared(path), []
        except sqlite3.OperationalError:
            raise  # the disk or the rights to it, not what the file holds
        except (sqlite3.DatabaseError, _DamagedError) as error:
            aside = _put_aside(path)
            connection = _prepared(path)
            saved = _save(aside, connection)
            return connection, [f"{path}: damaged ({error}); it lies in {aside.name}, a new one was begun; {saved}"]
    except (sqlite3.Error, OSError) as error:
        raise DataError(f"{path}: cannot be opened ({error})") from error


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Return a connection that cannot write."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.row_factory = sqlite3.Row
    return connection


def _prepared(path: Path) -> sqlite3.Connection:
    """Return a connection to a store that is whole and of this version."""
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        _check_ours(connection, path)
        # Before the first table: a file keeps what it began with.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        _keep_log(connection, path)
        connection.execute("PRAGMA foreign_keys = ON")
        _migrate(connection)
        connection.execute("UPDATE meta SET clean = 0")
    except BaseException:
        connection.close()
        raise
    return connection


def _keep_log(connection: sqlite3.Connection, path: Path) -> None:
    """Write ahead into a log, so that readers and the writer never wait for each other."""
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise DataError(f"{path}: no write-ahead log here ({mode}); expected a disk of this machine, not a network's")
    connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring the schema to this version, each step whole or not at all."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    for number, script in enumerate(MIGRATIONS[version:], version + 1):
        ours = f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {number};"
        connection.executescript(f"BEGIN IMMEDIATE; {script} {ours} COMMIT;")


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse what another program or a newer cgsa wrote, and find what was damaged."""
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        return
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise DataError(f"{path}: a database, but no store of cgsa; choose another file")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise DataError(f"{path}: store of version {version}; this cgsa knows those up to {len(MIGRATIONS)}")
    if not connection.execute("SELECT clean FROM meta").fetchone()[0]:
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise _DamagedError(found)


def _put_aside(path: Path) -> Path:
    """Rename a store with its log to the first free name; return that."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    for end in ("", "-wal", "-shm"):
        part = Path(f"{path}{end}")
        if part.exists():
            part.rename(f"{aside}{end}")
    return aside


def _save(aside: Path, connection: sqlite3.Connection) -> str:
    """Copy what no journal can bring back, as far as it can be read; return that in words."""
    saved = {TABLES[kept]: 0 for kept in _SAVED}
    whole = True
    try:
        with closing(connect_to_read(aside)) as old:
            for kept in _SAVED:
                table = TABLES[kept]
                connection.execute("BEGIN IMMEDIATE")
                try:
                    for row in old.execute(f"SELECT * FROM {table}"):  # noqa: S608 - the tables above
                        from_row(kept, row)
                        connection.execute(*insertion(table, dict(zip(row.keys(), row, strict=True))))
                        saved[table] += 1
                except (sqlite3.Error, ValueError, TypeError, LookupError):
                    # What lies behind the damage is not read: it may be anything.
                    whole = False
                connection.execute("COMMIT")
    except sqlite3.Error:
        whole = False
    words = ", ".join(f"{count} of {table}" for table, count in saved.items())
    return f"rows saved: {words}" + ("" if whole else "; more could not be read")
