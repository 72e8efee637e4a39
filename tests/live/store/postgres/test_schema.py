"""The tables in PostgreSQL are those in SQLite, and are brought to a new version by one process."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from cgsa.errors import DataError
from cgsa.live.store import AuditEntry, PostgresAddress, Store
from cgsa.live.store.postgres import schema
from cgsa.live.store.schema import MIGRATIONS
from cgsa.live.store.store import read_store
from tests.live.store.examples import all_rows, write_example_events
from tests.postgres import PostgresServer

OWN = {"meta", "sizes", "writers", "cgsa_store"}
"""Tables that are about the database itself."""
TYPES = {"TEXT": "text", "INTEGER": "bigint", "REAL": "double precision", "BLOB": "bytea"}


@pytest.fixture
def address(postgres: PostgresServer) -> Iterator[PostgresAddress]:
    with postgres.database() as found:
        yield found


def of_sqlite(path: Path) -> tuple[set[object], set[object], set[object], set[object]]:
    """Return columns, unique keys, references and indexes."""
    with closing(sqlite3.connect(path)) as connection:

        def ask(sql: str) -> list[tuple[object, ...]]:
            return list(connection.execute(sql))

        tables = [str(name) for (name,) in ask("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns, unique, references, indexes = set[object](), set[object](), set[object](), set[object]()
        for table in set(tables) - OWN:
            for _, name, kind, needed, _, key in ask(f"PRAGMA table_info({table})"):
                columns.add((table, name, TYPES[str(kind)], bool(needed or key)))
            for _, index, is_unique, origin, _ in ask(f"PRAGMA index_list({table})"):
                parts = tuple(row[2] for row in ask(f"PRAGMA index_info({index})"))
                if is_unique:
                    unique.add((table, parts))
                elif origin == "c":
                    indexes.add((index, tuple("expression" if part is None else part for part in parts)))
            found = ask(f"PRAGMA foreign_key_list({table})")
            if found:
                references.add((table, found[0][2], tuple(row[3] for row in found), tuple(row[4] for row in found)))
    return columns, unique, references, indexes


COLUMNS = """
    SELECT table_name, column_name, data_type, is_nullable = 'NO' FROM information_schema.columns
    WHERE table_schema = 'public'
"""
KEYS = """
    SELECT conrelid::regclass::text, contype::text, coalesce(nullif(confrelid, 0)::regclass::text, ''),
        ARRAY(SELECT attname::text FROM unnest(conkey) WITH ORDINALITY AS k(number, place)
              JOIN pg_attribute ON attrelid = conrelid AND attnum = k.number ORDER BY place),
        ARRAY(SELECT attname::text FROM unnest(confkey) WITH ORDINALITY AS k(number, place)
              JOIN pg_attribute ON attrelid = confrelid AND attnum = k.number ORDER BY place)
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype IN ('u', 'f')
"""
INDEXES = """
    SELECT c.relname::text, ARRAY(SELECT coalesce(a.attname::text, 'expression')
            FROM unnest(i.indkey) WITH ORDINALITY AS k(number, place)
            LEFT JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.number AND k.number > 0
            ORDER BY place)
    FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
    WHERE c.relnamespace = 'public'::regnamespace AND NOT i.indisunique
"""


def of_postgres(server: PostgresServer, database: str) -> tuple[set[object], set[object], set[object], set[object]]:
    columns = {row for row in server.execute(COLUMNS, database) if row[0] not in OWN}
    keys = [row for row in server.execute(KEYS, database) if row[0] not in OWN]
    unique = {(table, tuple(own)) for table, kind, _, own, _ in keys if kind == "u"}
    references = {(table, other, tuple(own), tuple(theirs)) for table, kind, other, own, theirs in keys if kind == "f"}
    # In SQLite every index ends with the id, without its being named.
    indexes = {
        (name, tuple(parts[:-1] if parts[-1] == "id" else parts)) for name, parts in server.execute(INDEXES, database)
    }
    return set(columns), set(unique), set(references), set(indexes)


def test_both_databases_have_the_same_tables_columns_and_keys(
    postgres: PostgresServer, address: PostgresAddress, tmp_path: Path
) -> None:
    with Store(tmp_path / "store.db") as store, store.read() as view:
        version = view.version()
    with Store(address) as store, store.read() as view:
        assert view.version() == version == len(MIGRATIONS) == schema.newest_version()
    for ours, theirs in zip(of_sqlite(tmp_path / "store.db"), of_postgres(postgres, address.database), strict=True):
        assert ours == theirs
        assert len(ours) > 3


def test_the_published_migration_is_never_changed() -> None:
    assert hashlib.sha256(schema.MIGRATIONS[0].encode()).hexdigest() == (
        "d99e2fffb57cfa7f2f02084092bf627b273feee404348053f9b5419f4fdc40d3"
    )


def test_texts_are_compared_by_their_bytes(postgres: PostgresServer, address: PostgresAddress) -> None:
    Store(address).close()
    found = postgres.execute(
        "SELECT DISTINCT collation_name FROM information_schema.columns WHERE data_type = 'text' "
        "AND table_schema = 'public' AND table_name NOT IN ('writers')",
        address.database,
    )
    assert found == [("C",)]


def test_an_older_store_is_migrated_by_one_of_several_processes(
    address: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(address) as store:
        write_example_events(store)
    steps = ("ALTER TABLE notes ADD COLUMN colour TEXT; SELECT pg_sleep(0.2);", "UPDATE notes SET colour = 'red';")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, *steps))
    stores: list[Store] = []
    threads = [threading.Thread(target=lambda: stores.append(Store(address))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores) == 4
    for store in stores:
        with store.read() as view:
            assert view._connection.execute("SELECT colour FROM notes").fetchone()[0] == "red"
            assert view.version() == len(MIGRATIONS) + 2
        store.close()


def test_a_new_database_is_prepared_by_one_of_several_processes(address: PostgresAddress) -> None:
    stores: list[Store] = []
    threads = [threading.Thread(target=lambda: stores.append(Store(address))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores) == 4
    for store in stores:
        store.flush()
        store.close()


def test_a_failed_migration_leaves_the_older_store(address: PostgresAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(address) as store:
        write_example_events(store)
    before = all_rows(address)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "DELETE FROM notes; CREATE TABLE notes (x BIGINT);"))
        with pytest.raises(DataError, match="cannot be opened"):
            Store(address)
    assert all_rows(address) == before
    Store(address).close()


def test_a_newer_store_is_refused_and_unchanged(postgres: PostgresServer, address: PostgresAddress) -> None:
    Store(address).close()
    postgres.execute("UPDATE cgsa_store SET version = 99", address.database)
    for attempt in (Store, lambda place: read_store(place).__enter__()):
        with pytest.raises(DataError, match="store of version 99; this cgsa reads versions up to"):
            attempt(address)
    assert postgres.execute("SELECT version FROM cgsa_store", address.database) == [(99,)]


def test_databases_of_other_programs_are_refused_and_unchanged(
    postgres: PostgresServer, address: PostgresAddress
) -> None:
    postgres.execute("CREATE TABLE theirs (x BIGINT)", address.database)
    with pytest.raises(DataError, match="a database with tables, but not a store of cgsa"):
        Store(address)
    with pytest.raises(DataError, match="there is no store here"), read_store(address):
        pass
    tables = postgres.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", address.database)
    assert tables == [("theirs",)]


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE audit SET who = 'nobody'",
        "DELETE FROM audit",
        "TRUNCATE audit",
        (
            "INSERT INTO audit (id, time, who, what, origin, result, details) "
            "VALUES (1, 0, 'nobody', '', '', '', '{}') ON CONFLICT (id) DO UPDATE SET who = excluded.who"
        ),
    ],
)
def test_the_audit_cannot_be_changed(sql: str, postgres: PostgresServer, address: PostgresAddress) -> None:
    with Store(address) as store:
        store.add_audit(AuditEntry(1.0, "eve", "close", "pump"))
    with pytest.raises(psycopg.IntegrityError, match="the audit is only added to"):
        postgres.execute(sql, address.database)
    with read_store(address) as view:
        assert view.audit().rows == (AuditEntry(1.0, "eve", "close", "pump"),)
