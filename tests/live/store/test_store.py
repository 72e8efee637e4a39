from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.errors import ConfigError, DataError
from cgsa.events import Note
from cgsa.live.store import DAY, PostgresAddress, RowRetention, Store, StoredToken
from cgsa.live.store.store import read_store
from tests.live.store.examples import OLDEST, columns, stored_diagnosis, write_example_events


def test_old_rows_are_deleted_and_their_space_is_freed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    # Every row arrives at the time of its stream.
    arrival = [0.0]
    with Store(path, clock=lambda: arrival[0]) as store:
        write_example_events(store)
        for batch in range(5, 300):
            arrival[0] = batch + 399 / 8
            store.add_ledger("pump", batch, columns(batch, windows=400, seed=batch))
            arrival[0] = stored_diagnosis(batch).diagnosis.end
            store.add_diagnosis(stored_diagnosis(batch))
        store.flush()
        days = (299 + 399 / 8 - 200) / DAY
        removed = store.trim(1e12, RowRetention(ledger=days, diagnoses=days, notes=None, snippets=4), chunk=7)
        store.flush()
        with store.read() as view:
            left = [row.diagnosis.batch for row in view.diagnoses(pick=OLDEST).rows]
            sizes = view.sizes()
            assert view.free_pages() == 0
            assert len(view.ledger("pump", 0, 150)) == 0
        assert left == list(range(199, 300))
        assert removed["diagnoses"] == 199
        assert removed["ledger"] == sum(
            float(batch + 399 / 8 if batch > 4 else batch + 7 / 8) < 200 for batch in range(300)
        )
        assert (removed["snippets"], "notes" in removed) == (0, False)
        big = path.stat().st_size
        store.trim(1e12, RowRetention(ledger=0, diagnoses=0, notes=0, snippets=0))
    with Store(path) as store, store.read() as view:
        after = view.sizes()
    assert after["ledger"].rows == 1  # the newest row of the machine
    for table in ("diagnoses", "notes", "snippets"):
        assert (after[table].rows, after[table].bytes) == (0, 0)
    for table in ("cases", "alarm_changes", "comments", "labels"):
        assert after[table] == sizes[table]
        assert after[table].rows > 0
    assert path.stat().st_size < big / 2


def test_history_is_kept_by_arrival_relative_to_the_newest_row_of_each_machine(place: Path | PostgresAddress) -> None:
    now = 60 * 365 * DAY
    arrivals = {
        "live": [now - 20 * DAY, now - DAY, now],
        "off": [now - 200 * DAY, now - 100 * DAY],
        "replayed": [now - 20 * DAY, now - 2.0, now - 1.0],
        "clock at 1970": [now - 20 * DAY, now - 2.0, now - 1.0],
        "clock ahead": [now - 20 * DAY, now - DAY, now],
    }
    ends = {**arrivals, "replayed": [5.0, 6.0, 7.0], "clock at 1970": [now - 20 * DAY, 0.5, now]}
    ends["clock ahead"] = [now + 999 * DAY, now - DAY, now]
    arrival = [0.0]
    with Store(place, clock=lambda: arrival[0]) as store:
        for machine, times in arrivals.items():
            for batch, arrival[0] in enumerate(times):
                diagnosis = replace(stored_diagnosis(batch).diagnosis, end=ends[machine][batch])
                store.add_diagnosis(replace(stored_diagnosis(batch), machine=machine, diagnosis=diagnosis))
            arrival[0] = times[0]
            store.add(0, 0, Note(machine, times[0], "service", "an old note", {}))
        store.flush()
        removed = store.trim(now, RowRetention(diagnoses=7, notes=400))
        assert removed == {"ledger": 0, "diagnoses": 5, "notes": 0, "snippets": 0}
        with store.read() as view:
            left = {one: sorted(row.diagnosis.batch for row in view.diagnoses(one, OLDEST).rows) for one in arrivals}
    assert left == {machine: list(range(1, len(times))) for machine, times in arrivals.items()}


def test_old_rows_are_found_with_an_index(sqlite_store: Store) -> None:
    sql, values = sqlite_store._database.dialect.old_rows("ledger", {"pump": 1.0}, 500)
    with sqlite_store.read() as view:
        plan = view._connection.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
    assert "ledger_by_arrival" in plan[-1]["detail"], "a scan of all rows would take minutes"


def test_days_are_not_negative() -> None:
    with pytest.raises(ConfigError, match="ledger -1; expected days, 0 or more"):
        RowRetention(ledger=-1)


def test_tokens_are_added_used_and_revoked(store: Store) -> None:
    token = StoredToken("eve", "operator", "salt$hash", 1.0)
    store.add_token(token)
    with pytest.raises(DataError, match="there is a token 'eve' already"):
        store.add_token(replace(token, role="admin"))
    store.add_token(StoredToken("adam", "viewer", "pepper$hash", 2.0))
    store.use_token("eve", 9.0)
    store.use_token("eve", 7.0)
    store.revoke_token("adam", 8.0)
    for name in ("adam", "cain"):
        with pytest.raises(DataError, match=f"no token '{name}' that could be revoked"):
            store.revoke_token(name, 9.0)
    with store.read() as view:
        assert view.tokens() == (
            StoredToken("adam", "viewer", "pepper$hash", 2.0, None, 8.0),
            replace(token, last_used=9.0),
        )
        assert view.token("eve") == replace(token, last_used=9.0)
        assert view.token("cain") is None


def test_a_closed_store_refuses_reads_and_writes(place: Path | PostgresAddress) -> None:
    store = Store(place)
    with store.read() as view:
        store.close()
        assert view.diagnoses().rows == ()
    store.close()
    with pytest.raises(DataError, match="the store is closed"):
        store.add_diagnosis(stored_diagnosis(0))
    with pytest.raises(DataError, match="the store is closed"), store.read():
        pass


def test_a_store_is_opened_for_writing_once_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Store(path) as store:
        store.add_token(StoredToken("eve", "operator", "salt$hash", 1.0))
        with pytest.raises(DataError, match=f"is in use by process {os.getpid()}; stop that service, or use its API"):
            Store(path)
        with read_store(path) as view:
            assert view.token("eve") is not None
    store.close()
    with Store(path) as again:
        assert again.notes == ()
