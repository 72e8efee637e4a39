"""A plant whose store is in PostgreSQL has the results of one with a file, also over kills of the server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cgsa.live.alarms import AlarmConfig
from cgsa.live.intake.block import Block
from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.store import PostgresAddress
from cgsa.live.store.mapping import TABLES
from cgsa.live.store.store import read_store
from cgsa.live.worker import WorkerConfig
from tests.live.stream import blocks, signal
from tests.machines import bundle
from tests.postgres import PostgresServer, running_postgres

NO_SHEDDING = WorkerConfig(shed_above=60.0)


@pytest.fixture(scope="module")
def server(postgres: PostgresServer) -> Iterator[PostgresServer]:
    del postgres  # skips here without a server
    with running_postgres() as found:
        yield found


def results(place: Path | PostgresAddress) -> dict[str, list[list[tuple[str, object]]]]:
    """Return all rows of machines, without the ids and times at which they happened to be written."""
    found = {}
    with read_store(place) as view:
        for table in (*TABLES.values(), "ledger"):
            rows = view._connection.execute(f"SELECT * FROM {table}")  # noqa: S608 - a table of the store
            found[table] = sorted(
                [(name, row[name]) for name in row.keys() if name not in {"id", "arrived"}]  # noqa: SIM118 - of a row
                for row in rows
            )
    return found


def test_results_are_those_of_a_file(tmp_path: Path, server: PostgresServer) -> None:
    bundle().save(tmp_path / "model")
    whole = np.concatenate([signal(3.0), signal(6.0, "wear", seed=1)], axis=1)
    streams = [[replace(block, machine=name) for block in blocks(whole)] for name in ("one", "two")]

    def add(plant: Plant) -> None:
        alarms = AlarmConfig(on_delay=0.1, off_delay=0.1)
        for name in ("one", "two"):
            settings = {"stream": {"batch_size": 64}}
            plant.add(MachineConfig(name, tmp_path / "model", profile="paper", settings=settings, alarms=alarms))

    def submit(plant: Plant, begin: int, end: int) -> None:
        sent: list[Block] = [stream[number] for number in range(begin, end) for stream in streams]
        for block in sent:
            plant.submit(block)

    with Plant(tmp_path / "file", threads=2, config=NO_SHEDDING) as plant:
        add(plant)
        submit(plant, 0, 90)
        plant.wait_until_idle()
    with server.database() as address:
        for begin in (0, 45):
            with Plant(tmp_path / "plant", threads=2, config=NO_SHEDDING, store=address) as plant:
                add(plant)
                submit(plant, begin, begin + 20)
                server.kill()
                submit(plant, begin + 20, begin + 45)
                server.start()
                plant.wait_until_idle()
                assert plant.store.lost == 0
        expected, found = results(tmp_path / "file" / "store.sqlite"), results(address)
    assert len(expected["diagnoses"]) > 20
    assert len(expected["cases"]) == 2
    for table, rows in expected.items():
        assert found[table] == rows, table
