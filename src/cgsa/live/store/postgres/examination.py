"""Whether a PostgreSQL database can be the store: reachable, new enough, with the rights, and safe. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg

from cgsa.errors import CgsaError
from cgsa.live.store.postgres.address import PostgresAddress
from cgsa.live.store.postgres.connection import PostgresConnection, connect
from cgsa.live.store.postgres.schema import check_new, check_version, newest_version, read_version

OLDEST_SERVER = 13
RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")


def examine_postgres(address: PostgresAddress) -> tuple[list[str], list[str]]:
    """Return what keeps a database from being the store, and what somebody should know of it."""
    notes = []
    if not address.tls and not address.is_local:
        notes.append(f"{address}: rows are sent unencrypted, and anybody on the way can change them; set tls = true")
    try:
        connection = connect(address, default_transaction_read_only="on")
        with closing(connection.raw):
            return list(_problems(connection, str(address))), [*notes, *_notes(connection, str(address))]
    except psycopg.Error as error:
        return [f"{address}: cannot be used ({' '.join(str(error).split())})"], notes
    except CgsaError as error:
        return [str(error)], notes


def _problems(connection: PostgresConnection, where: str) -> Iterator[str]:
    server = connection.raw.info.server_version // 10_000
    if server < OLDEST_SERVER:
        yield f"{where}: PostgreSQL {server}; expected {OLDEST_SERVER} or newer"
        return
    if _value(connection, "SELECT pg_is_in_recovery()"):
        yield f"{where}: a standby, which takes no writes; expected the primary"
        return
    if _value(connection, "SELECT current_schema()") is None:
        yield f"{where}: the role may use no schema; GRANT ALL ON SCHEMA public"
        return
    version = read_version(connection)
    check_version(version, where)
    if version is None:
        check_new(connection, where)
    if version != newest_version() and not _value(
        connection, "SELECT has_schema_privilege(current_schema(), 'CREATE')"
    ):
        yield f"{where}: the role may create no tables; make it the owner of the database"
    if version is not None:
        yield from _missing_rights(connection, where)


def _missing_rights(connection: PostgresConnection, where: str) -> Iterator[str]:
    wanted = " AND ".join(f"has_table_privilege(oid, '{right}')" for right in RIGHTS)
    found = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' "  # noqa: S608 - rights of this module
        f"AND NOT ({wanted}) ORDER BY relname"
    ).fetchall()
    if found:
        names = ", ".join(row[0] for row in found)
        yield f"{where}: the role may not read and write {names}; expected {', '.join(RIGHTS)}"


def _notes(connection: PostgresConnection, where: str) -> Iterator[str]:
    version = read_version(connection)
    if version is not None and version < newest_version():
        yield f"{where}: store of version {version}; the next start brings it to {newest_version()}"
    if _value(connection, "SHOW fsync") == "off":
        yield f"{where}: the server has fsync = off; a power failure would destroy the database"


def _value(connection: PostgresConnection, sql: str) -> object:
    return connection.execute(sql).fetchall()[0][0]
