"""Values come back as from SQLite, and connections are encrypted and verified."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.errors import DataError
from cgsa.events import Note
from cgsa.live.store import PostgresAddress, Store
from cgsa.live.store.mapping import Value
from cgsa.live.store.postgres.connection import PostgresConnection, connect
from tests.postgres import ADMIN, PostgresServer, running_postgres
from tests.service.sources.counterparts import certificate


@pytest.fixture(scope="module")
def connection(postgres: PostgresServer) -> Iterator[PostgresConnection]:
    with postgres.database() as address:
        found = connect(address)
        found.run("CREATE TABLE kept (a TEXT, b BIGINT, c DOUBLE PRECISION, d BYTEA)")
        yield found
        found.raw.close()


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(
    text=TEXTS,
    whole=st.integers(-(2**63), 2**63 - 1),
    number=st.floats(allow_nan=False),
    data=st.binary(max_size=300),
)
def test_values_keep_their_bits(
    text: str, whole: int, number: float, data: bytes, connection: PostgresConnection
) -> None:
    connection.run("BEGIN")
    connection.execute("INSERT INTO kept VALUES (?, ?, ?, ?)", (text, whole, number, data))
    (row,) = connection.execute("SELECT * FROM kept WHERE a = ? AND b = ?", (text, whole)).fetchall()
    connection.run("ROLLBACK")
    assert (row["a"], row["b"], row[3]) == (text, whole, data)
    assert struct.pack("<d", row["c"]) == struct.pack("<d", number)
    assert (row.keys(), list(row)[:2]) == (["a", "b", "c", "d"], [text, whole])


@pytest.mark.parametrize(
    ("value", "column", "kept"),
    [
        (True, "b", 1),
        (False, "b", 0),
        (math.nan, "c", None),
        (np.float64("nan"), "c", None),
        (np.float64(0.1), "c", 0.1),
        (None, "c", None),
        (3, "c", 3.0),
        ("a\0b", "a", "a\N{SYMBOL FOR NULL}b"),
    ],
)
def test_values_are_kept_as_in_sqlite(value: Value, column: str, kept: Value, connection: PostgresConnection) -> None:
    connection.run("BEGIN")
    connection.execute(f"INSERT INTO kept ({column}) VALUES (?)", (value,))  # noqa: S608
    ((found,),) = connection.execute(f"SELECT {column} FROM kept").fetchall()  # noqa: S608
    connection.run("ROLLBACK")
    assert (found, type(found)) == (kept, type(kept))


def test_a_text_with_the_character_zero_is_found_by_it(postgres_store: Store) -> None:
    postgres_store.add(0, 0, Note("pump", 1.0, "a\0b", "text"))
    postgres_store.flush()
    with postgres_store.read() as view:
        assert [note.text for note in view.notes(topic="a\0b").rows] == ["text"]


@pytest.fixture(scope="module")
def secured(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresAddress]:
    """A server that lets nobody in without TLS and a password."""
    del postgres  # skips here without a server
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("right", "other", "certified"):
        certificate(folder, name, "subjectAltName=IP:127.0.0.1")
    with running_postgres() as server:
        files = {"ssl_cert_file": "right.crt", "ssl_key_file": "right.key", "ssl_ca_file": "certified.crt"}
        for setting, name in files.items():
            place = server.folder / name
            place.write_bytes((folder / name).read_bytes())
            place.chmod(0o600)
            server.own(place)
            server.execute(f"ALTER SYSTEM SET {setting} = '{place}'")
        server.execute("CREATE ROLE guarded LOGIN PASSWORD 'hush'")
        server.execute("CREATE ROLE certified LOGIN IN ROLE guarded")
        server.execute("CREATE DATABASE guarded OWNER guarded")
        (server.data / "pg_hba.conf").write_text(
            f"host all {ADMIN} 127.0.0.1/32 trust\nhostssl all guarded 127.0.0.1/32 scram-sha-256\n"
            "hostssl all certified 127.0.0.1/32 cert\n"
        )
        server.execute("ALTER SYSTEM SET ssl = on")
        server.execute("SELECT pg_reload_conf()")
        yield PostgresAddress.parse(
            f"postgresql://guarded@127.0.0.1:{server.port}/guarded",
            tls=True,
            ca=str(folder / "right.crt"),
            password=lambda: "hush",
        )


def test_a_verified_server_is_used(secured: PostgresAddress) -> None:
    with Store(secured) as store, store.read() as view:
        found = view._connection.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()
        assert found[0] is True


def test_other_servers_and_wrong_passwords_are_refused(secured: PostgresAddress) -> None:
    other = str(Path(str(secured.ca)).with_name("other.crt"))
    for wrong, why in (
        (replace(secured, ca=other), "certificate verify failed"),
        (replace(secured, ca=None), "certificate verify failed"),
        (replace(secured, host="localhost"), "does not match host name"),
        (replace(secured, tls=False), "no pg_hba.conf entry|no encryption"),
        (replace(secured, password=lambda: "wrong"), "password authentication failed"),
        (replace(secured, password=None), "no password supplied"),
    ):
        with pytest.raises(DataError, match=why) as caught:
            Store(wrong)
        assert "hush" not in str(caught.value)


def test_a_certificate_takes_the_place_of_a_password(secured: PostgresAddress) -> None:
    folder = Path(str(secured.ca)).parent
    (folder / "certified.key").chmod(0o600)
    Store(secured).close()
    certificate_, key = str(folder / "certified.crt"), str(folder / "certified.key")
    with Store(replace(secured, user="certified", password=None, certificate=certificate_, key=key)) as store:
        store.flush()
    with pytest.raises(DataError, match="requires a valid client certificate"):
        Store(replace(secured, user="certified", password=None))
