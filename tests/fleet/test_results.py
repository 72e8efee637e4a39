"""Who may write the results of a machine, and that what is refused changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cgsa.events import Note
from cgsa.fleet.results import ResultBatch, StoredResults
from cgsa.live.store import PostgresAddress, Store
from cgsa.live.watch import WatchResult
from tests.postgres import PostgresServer


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | PostgresAddress]:
    if request.param == "sqlite":
        yield tmp_path / "store.sqlite"
        return
    with request.getfixturevalue("postgres").database() as address:
        yield address


@pytest.fixture
def store(place: Path | PostgresAddress) -> Iterator[Store]:
    with Store(place, retry_seconds=0.01) as opened:
        yield opened


def noted(machine: str, epoch: int, position: int, text: str, status: str | None = None) -> ResultBatch:
    note = Note(machine=machine, time=1.0, topic="remark", text=text)
    return ResultBatch(machine, epoch, ((position, WatchResult((note,), ())),), status)


def texts(store: Store, machine: str) -> set[str]:
    with store.read() as snapshot:
        return {note.text for note in snapshot.notes(machine).rows}


def test_only_the_newest_owner_writes(store: Store) -> None:
    results = StoredResults(store)
    assert results.claim({"m1": 3, "m2": 3}, {}) == {"m1": 1, "m2": 1}
    assert results.write([noted("m1", 1, 1, "first", "{}"), noted("m2", 1, 1, "first")]) == frozenset()
    assert results.claim({"m1": 2}, {}) == {}  # an assignment that is outdated
    assert results.claim({"m1": 3}, {}) == {"m1": 2}
    written = results.write([noted("m1", 1, 2, "late", "[]"), noted("m2", 1, 2, "second"), noted("m3", 1, 1, "nobody")])
    assert written == {"m1", "m3"}
    assert (texts(store, "m1"), texts(store, "m2"), texts(store, "m3")) == ({"first"}, {"first", "second"}, set())
    with store.read() as snapshot:
        assert snapshot.statuses() == {"m1": "{}"}
    assert StoredResults(store).write([ResultBatch("m1", 1), ResultBatch("m1", 2)]) == {"m1"}


def test_an_epoch_is_above_those_of_saved_states_if_the_store_has_lost_its_claims(store: Store) -> None:
    results = StoredResults(store)
    assert results.claim({"m1": 1}, {"m1": 41}) == {"m1": 42}
    assert results.claim({"m1": 1}, {"m1": 7}) == {"m1": 43}


def test_a_result_that_no_store_takes_costs_no_other(store: Store) -> None:
    results = StoredResults(store)
    results.claim({"m1": 1}, {})
    broken = noted("m1", 1, 2, "ok")
    broken = ResultBatch("m1", 1, (*broken.results, *noted("m1", 1, 2**70, "beyond all numbers").results), "{}")
    assert results.write([broken]) == frozenset()
    assert texts(store, "m1") == {"ok"}


def test_two_processes_that_claim_at_once_get_different_epochs(postgres: PostgresServer) -> None:
    found: list[int] = []
    with postgres.database() as address, Store(address) as one, Store(address) as other:

        def claim(store: Store) -> None:
            for _ in range(20):
                found.extend(StoredResults(store).claim({"m1": 1}, {}).values())

        threads = [threading.Thread(target=claim, args=(store,)) for store in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # Whoever was overtaken before it could read its claim has none.
        assert len(found) == len(set(found)) > 0
        with one.read() as snapshot:
            assert snapshot.claims()["m1"].epoch == 40 >= max(found)
