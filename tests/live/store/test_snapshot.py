from __future__ import annotations

import sqlite3
import threading
from dataclasses import replace

import numpy as np
import pytest

from cgsa.errors import DataError
from cgsa.events import AlarmChange, Note
from cgsa.ledger.columns import Columns
from cgsa.live.store import AuditEntry, RowPage, RowSelection, Store
from tests.live.store.examples import columns, example_events, plain, stored_diagnosis


def test_rows_are_found_by_machine_time_and_more(store: Store) -> None:
    for batch in range(10):
        store.add_diagnosis(stored_diagnosis(batch, "pump" if batch % 2 else "fan"))
        store.add(batch, 0, Note("pump", float(batch), "gap" if batch < 5 else "overload", ""))
    store.add_audit(AuditEntry(1.0, "eve", "acknowledge", "pump", "10.0.0.7", "done", {"case": 1}))
    store.add_audit(AuditEntry(2.0, "adam", "log in"))
    store.flush()
    with store.read() as view:
        assert [row.diagnosis.batch for row in view.diagnoses("pump").rows] == [9, 7, 5, 3, 1]
        within = RowSelection(begin=3.5, end=6.5, newest_first=False)
        assert [row.diagnosis.batch for row in view.diagnoses(pick=within).rows] == [2, 3, 4]
        assert [row.time for row in view.notes("pump", topic="overload").rows] == [9, 8, 7, 6, 5]
        assert view.audit(who="eve").rows == (
            AuditEntry(1.0, "eve", "acknowledge", "pump", "10.0.0.7", "done", {"case": 1}),
        )
        assert [entry.who for entry in view.audit().rows] == ["adam", "eve"]
        assert view.diagnoses("lathe") == RowPage((), None, more=False)


def test_windows_are_found_by_their_time(store: Store) -> None:
    """Compared with a literal search, window by window."""
    batches = [columns(float(n), seed=n, learns=n != 2) for n in range(5)]
    batches[3]["distance"] = np.arange(8, dtype=np.float32)
    for number, batch in enumerate(batches):
        store.add_ledger("pump", number, batch)
    store.add_ledger("fan", 0, columns(2.0))
    store.add_ledger("pump", 5, columns(9.0, windows=0))
    store.flush()
    for begin, end in [(-9.0, 99.0), (1.25, 3.5), (2.0, 3.0), (2.9, 3.0), (7.0, 8.0), (3.0, 3.0)]:
        touched = [batch for batch in batches if plain(batch["time"])[-1] >= begin and plain(batch["time"])[0] < end]  # type: ignore[operator]  # times are numbers
        literal: dict[str, list[object]] = {name: [] for batch in touched for name in batch}
        for batch in touched:
            for row, time in enumerate(batch["time"].tolist()):  # type: ignore[union-attr]  # times are numbers
                if begin <= time < end:
                    for name, values in literal.items():
                        missing = False if name == "accepted" else "NaN"
                        values.append(plain(batch[name])[row] if name in batch else missing)
        with store.read() as view:
            found: Columns = view.ledger("pump", begin, end)
        assert {name: plain(column) for name, column in found.items()} == literal


def test_too_many_windows_are_not_read_at_once(store: Store) -> None:
    store.add_ledger("pump", 0, columns(0.0))
    store.flush()
    with store.read() as view, pytest.raises(DataError, match="pump: 8 windows from 0 to 9; at most 7 are read"):
        view.ledger("pump", 0, 9, limit=7)


def test_a_snapshot_stays_while_the_writer_works(store: Store) -> None:
    store.add_diagnosis(stored_diagnosis(0))
    store.flush()
    with store.read() as view:
        store.add_diagnosis(stored_diagnosis(1))
        store.flush()
        assert len(view.diagnoses().rows) == 1
        with store.read() as fresh:
            assert len(fresh.diagnoses().rows) == 2


def test_readers_in_many_threads_see_whole_transactions(store: Store) -> None:
    """A change and its case are written together, so no reader sees one without the other."""
    events = [(position, index, event) for position, index, event in example_events() if isinstance(event, AlarmChange)]
    wrong: list[str] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            with store.read() as view:
                newest = {
                    change.machine: change.case for change in reversed(view.changes(pick=RowSelection(limit=1000)).rows)
                }
                cases = {one.machine: one.case for one in reversed(view.cases(pick=RowSelection(limit=1000)).rows)}
                if newest != cases:
                    wrong.append(f"{newest} {cases}")

    readers = [threading.Thread(target=look) for _ in range(3)]
    for reader in readers:
        reader.start()
    for n in range(60):
        for position, index, event in events:
            store.add(position, index, replace(event, machine=f"pump {n}"))
        store.flush()
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []


def test_queries_need_no_sorting(sqlite_store: Store) -> None:
    """Paging through a year of rows uses an index in both directions."""
    store = sqlite_store
    store.add_diagnosis(stored_diagnosis(0))
    store.flush()
    with store.read() as view:
        asked: list[str] = []
        assert isinstance(view._connection, sqlite3.Connection)
        view._connection.set_trace_callback(asked.append)
        for machine in ("pump", None):
            for newest_first in (True, False):
                pick = RowSelection(0.0, 9.0, newest_first=newest_first)
                view.diagnoses(machine, replace(pick, after=view.diagnoses(machine, pick).cursor))
        view.ledger("pump", 0, 9)
        view._connection.set_trace_callback(None)
        for question in asked:
            plan = " ".join(row["detail"] for row in view._connection.execute(f"EXPLAIN QUERY PLAN {question}"))
            assert "INDEX" in plan
            assert "SCAN" not in plan
            assert "TEMP B-TREE" not in plan
    assert len(asked) == 10


def test_a_reader_cannot_write(store: Store) -> None:
    with (
        pytest.raises(
            DataError, match=r"cannot be read \((attempt to write a readonly|cannot execute DELETE in a read-only)"
        ),
        store.read() as view,
    ):
        view._connection.execute("DELETE FROM notes")
