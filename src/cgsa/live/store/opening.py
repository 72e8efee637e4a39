"""Which database a store is in: an SQLite file, or PostgreSQL."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from cgsa.errors import ConfigError
from cgsa.live.store.database import Database
from cgsa.live.store.postgres.address import PostgresAddress
from cgsa.live.store.sqlite_database import SqliteDatabase

STORE_FILE = "store.sqlite"
"""The store in the folder of a service."""
PLACE_FILE = "store.json"
"""In that folder: where the store is, if it is in PostgreSQL."""


def open_database(place: str | Path | PostgresAddress | Database) -> Database:
    """Return the database at a path or address, open to write; one that is open is returned as it is."""
    if isinstance(place, PostgresAddress):
        database: Database = postgres_module("database").PostgresDatabase(place)
        return database
    return SqliteDatabase(Path(place)) if isinstance(place, str | Path) else place


def postgres_module(name: str) -> ModuleType:
    """Return a module of ``cgsa.live.store.postgres``, whose package comes with an extra."""
    try:
        return import_module(f"cgsa.live.store.postgres.{name}")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"a store in PostgreSQL needs {error.name}; install it with pip install 'cgsa[postgres]'"
        ) from error
