"""Trends, the healthy signal, maintenance, rotated tokens, and what workers ask about alarms."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from cgsa.errors import DataError
from cgsa.events import AlarmChange
from cgsa.live.store import HealthyPiece, MaintenanceWindow, Snippet, Store, StoredToken, StoredTrend
from tests.live.store.examples import OLDEST, example_events, stored_diagnosis, write_example_events
from tests.postgres import PostgresServer


def trend(time: float, machine: str = "pump", seconds: int = 60) -> StoredTrend:
    values, spectrum = bytes([0, 255, 128, 10]), bytes(range(256))
    return StoredTrend(machine, time, seconds, 3, 0.25, 2, 12.5, ("x", "y"), values, spectrum)


def test_the_newest_trends_are_kept_and_written_anew(store: Store) -> None:
    for minute in range(7):
        store.put_trend(trend(60.0 * minute), keep=4)
        store.put_trend(trend(60.0 * minute, "fan"), keep=100)
    store.put_trend(trend(0.0, seconds=3600), keep=4)
    changed = replace(trend(360.0), health=None, batches=4)
    store.put_trend(changed, keep=4)
    store.flush()
    with store.read() as view:
        assert view.trends("pump", 60, OLDEST).rows == (*(trend(60.0 * minute) for minute in (3, 4, 5)), changed)
        assert view.trends("pump", 3600).rows == (trend(0.0, seconds=3600),)
        assert len(view.trends("fan", 60).rows) == 7


def test_whoever_saw_most_of_a_minute_counts_in_whatever_order_they_write(store: Store) -> None:
    whole, part = trend(60.0), replace(trend(60.0), batches=1, pieces=2, health=0.75)
    same = replace(whole, health=0.5)
    for rows, expected in (((part, whole), whole), ((whole, part), whole), ((whole, same), same)):
        name = f"m{len(expected.machine)}-{rows[0].batches}-{expected.health}"
        for row in rows:
            store.put_trend(replace(row, machine=name), keep=10)
        store.flush()
        with store.read() as view:
            assert view.trends(name, 60).rows == (replace(expected, machine=name),)


def test_processes_that_share_a_database_never_give_a_number_twice(postgres: PostgresServer) -> None:
    window = MaintenanceWindow(0, ("press-*",), 10.0, 20.0, "once", "UTC", "eve", "oil", 5.0)
    numbers: list[int] = []
    with postgres.database() as address, Store(address) as one, Store(address) as other:

        def add(store: Store) -> None:
            numbers.extend(store.add_maintenance(window).number for _ in range(10))

        threads = [threading.Thread(target=add, args=(store,)) for store in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(numbers) == list(range(1, 21))
        with one.read() as view:
            assert sorted(window.number for window in view.maintenance()) == sorted(numbers)


def test_pieces_of_the_healthy_signal_are_kept_until_they_are_removed(store: Store) -> None:
    samples = np.random.default_rng(0).standard_normal((2, 50)).astype(np.float32)
    for machine, time in (("pump", 1.0), ("pump", 0.5), ("fan", 2.0)):
        store.add_healthy_piece(HealthyPiece(machine, time, 12.5, ("x", "y"), {"speed": 1480.0}, samples))
    store.flush()
    with store.read() as view:
        found = view.healthy_signal("pump")
    assert [(piece.time, piece.conditions, piece.channels) for piece in found] == [
        (1.0, {"speed": 1480.0}, ("x", "y")),
        (0.5, {"speed": 1480.0}, ("x", "y")),
    ]
    assert all(piece.samples.tobytes() == samples.tobytes() for piece in found)
    store.remove_healthy_signal("pump")
    with store.read() as view:
        assert (view.healthy_signal("pump"), len(view.healthy_signal("fan"))) == ((), 1)


def test_maintenance_is_added_and_ended_once(store: Store) -> None:
    window = MaintenanceWindow(0, ("press-*",), 10.0, 20.0, "daily", "Europe/Berlin", "eve", "oil", 5.0)
    assert [store.add_maintenance(window).number for _ in range(2)] == [1, 2]
    store.end_maintenance(1, 15.0, "adam")
    for number in (1, 3):
        with pytest.raises(DataError, match=f"maintenance {number} is over already, or never was"):
            store.end_maintenance(number, 16.0, "eve")
    with store.read() as view:
        assert view.maintenance() == (
            replace(window, number=2),
            replace(window, number=1, ended=15.0, ended_by="adam"),
        )


def test_a_token_is_rotated_while_it_is_valid(store: Store) -> None:
    token = StoredToken("eve", "operator", "old", 1.0, machines=("press-*",))
    store.add_token(token)
    store.rotate_token("eve", "new", 50.0, 99.0)
    with store.read() as view:
        assert view.token("eve") == replace(token, digest="new", previous="old", previous_until=50.0, expires=99.0)
    store.revoke_token("eve", 60.0)
    with pytest.raises(DataError, match="no valid token 'eve' that could be rotated"):
        store.rotate_token("eve", "newest", 70.0, None)
    assert store.token_changes == 4


def test_what_workers_ask_about_alarms(store: Store) -> None:
    write_example_events(store)
    changes = [(p, event) for p, _, event in example_events() if isinstance(event, AlarmChange) and event.notify]
    kept = [position for position, _, event in example_events() if isinstance(event, Snippet)]
    store.add_diagnosis(stored_diagnosis(41))
    store.flush()
    with store.read() as view:
        assert sorted(view.alarms_without_snippet("pump", 0)) == [
            (position, event.time, event.case.number) for position, event in changes if position not in kept
        ]
        assert view.alarms_without_snippet("pump", 99) == view.alarms_without_snippet("fan", 0) == ()
        newest = view.newest_case("pump")
        assert newest is not None
        assert newest.number == 2
        assert (view.newest_case("fan"), view.next_batch("pump"), view.next_batch("fan")) == (None, 42, 0)
        assert view.is_wanted_later("pump", 0.5, 0.75, before=0.0, after=0.0), "a label covers it"
        assert not view.is_wanted_later("pump", 20.0, 21.0, before=0.0, after=0.0)
        assert view.is_wanted_later("pump", 20.0, 21.0, before=0.0, after=20.0 - changes[-1][1].time + 0.5)
        assert view.newest_arrivals("notes").keys() == {"pump"}
        assert view.newest_arrivals("snippets").keys() == {"pump"}
        assert view.damage() is None
        assert view.ledger_bytes("pump") > 0
        assert view.ledger_bytes("fan") == 0
    assert store.check() is None
