from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from cgsa.live.store import PostgresAddress, Store
from tests.postgres import PostgresServer

Place: TypeAlias = Path | PostgresAddress


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Where a store can be: what it does must not depend on that."""
    if request.param == "sqlite":
        yield tmp_path / "store.db"
        return
    with request.getfixturevalue("postgres").database() as address:
        yield address


@pytest.fixture
def store(place: Place) -> Iterator[Store]:
    with Store(place, retry_seconds=0.01) as opened:
        yield opened


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.db", retry_seconds=0.01) as opened:
        yield opened


@pytest.fixture
def postgres_store(postgres: PostgresServer) -> Iterator[Store]:
    with postgres.database() as address, Store(address, retry_seconds=0.01) as opened:
        yield opened


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store for many examples, each with a machine of its own."""
    if request.param == "sqlite":
        with Store(tmp_path_factory.mktemp("pages") / "store.db") as opened:
            yield opened
        return
    with request.getfixturevalue("postgres").database() as address, Store(address) as opened:
        yield opened
