"""Connections to PostgreSQL that take the same statements and values, and return the same rows, as those to SQLite."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from numpy import float64
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.postgres import types
from psycopg.types.numeric import FloatBinaryDumper
from psycopg.types.string import StrDumperUnknown

from cgsa.errors import ConfigError, DataError
from cgsa.live.store.mapping import Value
from cgsa.live.store.postgres.address import PostgresAddress

ANSWER_SECONDS = 5
"""How long a server may take to answer a new connection, and a write may wait for others."""
VANISHED = {"keepalives_idle": 20, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}
"""When a server counts as away that says nothing any more; in seconds, and milliseconds."""
ABANDONED = "-c tcp_keepalives_idle=20 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
"""When the server gives up a client that vanished, whose rows others may wait for."""
_AUTHORITIES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
"""Where Linux distributions have them."""


class PostgresRow:
    """A row whose values are found by name or place."""

    __slots__ = ("_places", "_values")

    def __init__(self, places: Mapping[str, int], values: Sequence[Any]) -> None:
        self._places, self._values = places, values

    def __getitem__(self, key: int | str, /) -> Any:
        return self._values[self._places[key] if isinstance(key, str) else key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def keys(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._places)


class PostgresConnection:
    """A connection on which each statement is a transaction of its own, unless one was begun."""

    def __init__(self, raw: psycopg.Connection[PostgresRow]) -> None:
        self.raw = raw

    def execute(self, sql: str, values: Sequence[Value] = (), /) -> psycopg.Cursor[PostgresRow]:
        """Run a statement with question marks for its values."""
        return self.raw.execute(_with_places(sql), values)

    def run(self, script: str) -> psycopg.Cursor[PostgresRow]:
        """Run statements without values; return the answer to the first of them."""
        return self.raw.execute(script.encode())


def connect(address: PostgresAddress, **settings: str) -> PostgresConnection:
    """Return a connection to a database, with some settings of the server."""
    options = " ".join([ABANDONED, *(f"-c {name}={value}" for name, value in settings.items())])
    raw = psycopg.connect(
        **(_login(address) | VANISHED),
        options=options,
        autocommit=True,
        row_factory=_rows,
        connect_timeout=ANSWER_SECONDS,
        application_name="cgsa",
        client_encoding="utf-8",
    )
    raw.adapters.register_dumper(float, _FloatDumper)
    raw.adapters.register_dumper(float64, _FloatDumper)
    raw.adapters.register_dumper(bool, _BoolDumper)
    raw.adapters.register_dumper(str, _StrDumper)
    return PostgresConnection(raw)


def _login(address: PostgresAddress) -> dict[str, Any]:
    """Return where to connect to; secrets and certificates are read anew each time."""
    found: dict[str, Any] = {
        "host": address.host,
        "port": address.port,
        "user": address.user,
        "dbname": address.database,
        "gssencmode": "disable",
    }
    if address.password is not None:
        try:
            found["password"] = address.password()
        except ConfigError as error:
            raise DataError(f"{address}: {error}") from error
    if not address.tls:
        return found | {"sslmode": "disable"}
    found |= {"sslmode": "verify-full", "sslrootcert": address.ca or _system_authorities()}
    if address.certificate is not None:
        found |= {"sslcert": address.certificate, "sslkey": address.key}
    return found


def _system_authorities() -> str:
    """Return the file of the authorities that this computer trusts: a libpq of a package may not know where it is."""
    known = (str(ssl.get_default_verify_paths().cafile), *_AUTHORITIES)
    return next((name for name in known if Path(name).is_file()), "system")


@cache
def _with_places(sql: str) -> bytes:
    """Return SQL in which places for values are written as psycopg wants them."""
    return sql.replace("%", "%%").replace("?", "%s").encode()


def _rows(cursor: psycopg.Cursor[Any]) -> Callable[[Sequence[Any]], PostgresRow]:
    places = {column.name: place for place, column in enumerate(cursor.description or ())}
    return lambda values: PostgresRow(places, values)


class _FloatDumper(FloatBinaryDumper):
    """Numbers as SQLite keeps them: one that is none is NULL."""

    def dump(self, obj: float) -> Buffer | None:
        return None if obj != obj else super().dump(obj)  # noqa: PLR0124 - true of NaN alone


class _BoolDumper(Dumper):
    """Truth values as SQLite keeps them: as numbers."""

    oid = types["int2"].oid

    def dump(self, obj: bool) -> Buffer:  # noqa: FBT001 - the interface of psycopg
        return b"1" if obj else b"0"


class _StrDumper(StrDumperUnknown):
    """Texts; PostgreSQL cannot keep the character zero, and gets the symbol for it."""

    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj.replace("\0", "\N{SYMBOL FOR NULL}"))
