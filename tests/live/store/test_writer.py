from __future__ import annotations

import json
import math
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.errors import DataError
from cgsa.events import AlarmChange, Comment, Note
from cgsa.live.store import Store
from cgsa.live.store.sqlite_database import SqliteDatabase
from tests.live.store.examples import OLDEST, every, example_events, stored_diagnosis


def test_an_invalid_write_is_dropped_alone_and_reported(store: Store) -> None:
    store.add_diagnosis(stored_diagnosis(0))
    store.add(0, 0, Note("pump", math.nan, "gap", "when?"))
    store.add(0, 1, Comment("pump", 1.0, 7, "eve", "of no case"))
    store.add(2**70, 0, Note("pump", 1.0, "gap", "where?"))
    opened = next(event for *_, event in example_events() if isinstance(event, AlarmChange))
    store.add(0, 2, replace(opened, time=math.nan))
    store.add_diagnosis(stored_diagnosis(1))
    store.flush()
    with store.read() as view:
        assert len(view.diagnoses().rows) == 2
        # If a change cannot be written, its case is not written either.
        assert (view.notes().rows, view.comments().rows, view.cases().rows) == ((), (), ())
    assert (store.problem, store.lost) == (None, 4)
    reasons = ("not[- ]null", "foreign key", "too large|out of range", "not[- ]null")
    for reason, note in zip(reasons, store.notes, strict=True):
        assert "a write was refused" in note
        assert re.search(reason, note, re.IGNORECASE)


WRITER = """
import sys
from pathlib import Path
from cgsa.live.store import Store
from cgsa.live.store.sqlite_database import SqliteDatabase
from tests.live.store.examples import stored_diagnosis

store = Store(Path(sys.argv[1]))
batch = int(sys.argv[2])
while True:
    for _ in range(7):
        store.add_diagnosis(stored_diagnosis(batch))
        batch += 1
    store.flush()
    print(batch, flush=True)
"""


def test_flushed_rows_survive_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    flushed = 0
    for lines in (1, 5, 23):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(flushed)], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            for _ in range(lines):
                flushed = int(child.stdout.readline())
            child.send_signal(signal.SIGKILL)
            rest = child.stdout.read().split()
        # The last number may have been printed after the reader stopped, or be incomplete.
        flushed = max([flushed, *(int(line) for line in rest[:-1])])
        with Store(path) as store:
            assert store.notes == ()
            with store.read() as view:
                rows = every(lambda pick: view.diagnoses(pick=pick), limit=1000, newest_first=False)
                assert rows[:flushed] == [stored_diagnosis(batch) for batch in range(flushed)]
                assert rows == [stored_diagnosis(batch) for batch in range(len(rows))]


FULL_DISK = """
import json, resource, sys, time
from pathlib import Path
from cgsa.live.store import Store
from cgsa.errors import DataError
from tests.live.store.examples import stored_diagnosis

store = Store(Path(sys.argv[1]), capacity=1000, retry_seconds=0.01)
store.add_diagnosis(stored_diagnosis(0))
store.flush()
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
for batch in range(1, 2501):
    store.add_diagnosis(stored_diagnosis(batch, "a machine with a long name to fill the disk " * 9))
try:
    store.flush()
    refused = ""
except DataError as error:
    refused = str(error)
while store.waiting < 1000 and store.problem:
    store.add_diagnosis(stored_diagnosis(9_999))
store.add_diagnosis(stored_diagnosis(10_000))
during = {"problem": store.problem, "refused": refused, "waiting": store.waiting, "lost": store.lost}
with store.read() as view:
    during["rows"] = view.sizes()["diagnoses"].rows
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
while store.problem:
    time.sleep(0.01)
store.flush()
with store.read() as view:
    rows = view.sizes()["diagnoses"].rows
print(json.dumps({**during, "after": rows, "lost_after": store.lost, "notes": store.notes}))
store.close()
"""


def test_a_full_disk_is_reported_and_writing_resumes_once_there_is_space(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert "cannot be written" in result["problem"]
    assert "cannot be written" in result["refused"]
    assert result["waiting"] >= 1000
    assert result["lost"] > 0
    assert 1 <= result["rows"] < 2501
    # Everything that was not dropped is there.
    assert result["rows"] < result["after"]
    assert result["lost_after"] == result["lost"]
    assert ["cannot be written" in result["notes"][0], "can be written again" in result["notes"][-1]] == [True, True]
    with Store(path) as store:
        assert store.notes == ()


def connection_of(store: Store) -> sqlite3.Connection:
    """Return the connection that writes."""
    assert isinstance(store._database, SqliteDatabase)
    return store._database._connection


def test_a_disk_that_fills_up_during_a_write_loses_nothing(sqlite_store: Store) -> None:
    store = sqlite_store
    connection_of(store).execute("PRAGMA max_page_count = 1")
    for batch in range(100):
        store.add_diagnosis(stored_diagnosis(batch))
    with pytest.raises(DataError, match="database or disk is full"):
        store.flush()
    assert "database or disk is full" in str(store.problem)
    assert (store.waiting, store.lost) == (100, 0)
    connection_of(store).execute("PRAGMA max_page_count = 1000000")
    while store.problem:
        time.sleep(0.001)
    store.flush()
    with store.read() as view:
        assert view.diagnoses(pick=OLDEST).rows == tuple(stored_diagnosis(batch) for batch in range(100))
    assert "can be written again; 0 writes were dropped so far" in store.notes[-1]


def test_awaited_writes_are_synced_to_the_disk(sqlite_store: Store) -> None:
    store = sqlite_store
    done: list[str] = []
    connection_of(store).set_trace_callback(done.append)
    store.flush()
    connection_of(store).set_trace_callback(None)
    assert done.index("PRAGMA synchronous = FULL") < done.index("BEGIN IMMEDIATE")


def test_a_full_queue_blocks_callers_unless_the_disk_fails(tmp_path: Path) -> None:
    """Another program that locks the file simulates a slow disk."""
    small = Store(tmp_path / "small.db", capacity=3, retry_seconds=0.01)
    connection_of(small).execute("PRAGMA busy_timeout = 60000")
    with closing(sqlite3.connect(small.files[0], isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        entered = threading.Event()

        def add() -> None:
            for batch in range(10):
                if batch == 9:
                    entered.set()
                small.add_diagnosis(stored_diagnosis(batch))

        caller = threading.Thread(target=add)
        caller.start()
        while small.waiting < 3:
            time.sleep(0.001)
        assert not entered.is_set()
        other.execute("COMMIT")
        caller.join()
        assert entered.is_set()
        small.flush()
        connection_of(small).execute("PRAGMA busy_timeout = 1")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DataError, match="cannot be written"):
            small.flush()
        for batch in range(10, 30):
            small.add_diagnosis(stored_diagnosis(batch))
        assert small.lost >= 16
        assert "database is locked" in str(small.problem)
    small.close()
    with Store(small.files[0]) as again, again.read() as view:
        rows = view.sizes()["diagnoses"].rows
    assert 10 <= rows == 30 - small.lost


def test_closing_a_failing_store_drops_its_queue(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db", retry_seconds=60)
    connection_of(store).execute("PRAGMA busy_timeout = 1")
    with closing(sqlite3.connect(store.files[0], isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store.add_diagnosis(stored_diagnosis(0))
        with pytest.raises(DataError, match="cannot be written"):
            store.flush()
        store.close()
    assert store.lost == 1
    with Store(store.files[0]) as again, again.read() as view:
        assert view.diagnoses().rows == ()
