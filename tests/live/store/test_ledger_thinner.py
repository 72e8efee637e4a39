"""Machines whose clocks run a thousand times faster than time, and ledgers that stay within their budgets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cgsa.events import AlarmChange, Case
from cgsa.ledger.columns import Column, stands_for
from cgsa.live.store import LedgerBudget, PostgresAddress, Store
from cgsa.live.store.ledger_thinner import HOUR
from tests.live.store.examples import columns, plain

BUDGET = LedgerBudget(whole_hours=1, sampled_hours=2, every=4, mean_seconds=10.0, alarm_seconds=60.0)
NEVER = LedgerBudget(whole_hours=100, sampled_hours=100)
HOURS = 4
BATCH = 60
"""Seconds, and windows, of a batch."""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def batch(begin: float, seed: int) -> dict[str, Column]:
    found = columns(begin, BATCH, seed)
    return found | {"time": begin + np.arange(BATCH, dtype=np.float64)}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(place: Path | PostgresAddress, clock: Clock) -> Iterator[Store]:
    """A store with four hours of windows."""
    with Store(place, clock=clock) as opened:
        write(opened, clock)
        yield opened


def write(store: Store, clock: Clock, machine: str = "pump") -> None:
    for number in range(HOURS * 60):
        clock.now = (number + 1) * BATCH
        store.add_ledger(machine, number, batch(number * BATCH, number % 7))
    store.flush()


def alarm(store: Store, time: float, position: int) -> None:
    case = Case(position, "raised", "high", "crack", ("crack",), opened=time, changed=time)
    store.add(position, 0, AlarmChange("pump", time, "raised", "crack", notify=True, case=case))
    store.flush()


def counts(store: Store, begin: float = 0.0, end: float = 1e9) -> tuple[int, float]:
    """Return how many rows there are in a period, and how many windows they stand for."""
    with store.read() as snapshot:
        found = snapshot.ledger("pump", begin, end)
    return len(found["time"]), float(stands_for(found).sum())


def test_windows_are_thinned_by_their_age(store: Store) -> None:
    with store.read() as snapshot:
        before = snapshot.ledger("pump", 0, 1e9)
    store.thin(1e9, BUDGET)
    end = HOURS * HOUR
    assert counts(store, end - HOUR, end) == (3600, 3600)
    rows, windows = counts(store, end - 2 * HOUR, end - HOUR)
    assert windows == 3600
    # One in four, and a few more: at least one of each kind per minute.
    assert 900 <= rows <= 1400
    rows, windows = counts(store, 0, end - 2 * HOUR)
    assert windows == 7200
    assert rows < 720 * 8
    with store.read() as snapshot:
        after = snapshot.ledger("pump", 0, 1e9)
    for name in ("verdict", "reason"):
        for label in set(plain(before[name])):
            chosen = np.array([one == label for one in plain(after[name])])
            assert stands_for(after)[chosen].sum() == plain(before[name]).count(label)
    assert (np.diff(np.asarray(after["time"])) >= 0).all()


def test_thinning_again_changes_nothing(store: Store) -> None:
    assert store.thin(1e9, BUDGET)["pump"] > 0
    before = counts(store)
    assert store.thin(1e9, BUDGET) == {"pump": 0}
    assert counts(store) == before


def test_windows_around_alarms_stay_whole(store: Store) -> None:
    alarm(store, 1800.0, 1)
    store.thin(1e9, BUDGET)
    assert counts(store, 1740, 1860) == (120, 120)
    assert counts(store, 0, 1e9)[1] == HOURS * 3600


def test_a_ledger_is_below_its_size_whatever_its_rate(store: Store) -> None:
    alarm(store, 1800.0, 1)
    with store.read() as snapshot:
        whole = snapshot.ledger_bytes("pump")
    for share in (0.5, 0.1, 0.02):
        store.thin(1e9, LedgerBudget(whole_hours=100, sampled_hours=100, megabytes=share * whole / 1e6, every=4))
        with store.read() as snapshot:
            assert snapshot.ledger_bytes("pump") <= share * whole
    # The smallest takes the surroundings of the alarm, too, and then the oldest rows.
    assert counts(store)[1] < HOURS * 3600


def test_alarms_are_thinned_last(store: Store) -> None:
    alarm(store, 1800.0, 1)
    with store.read() as snapshot:
        whole = snapshot.ledger_bytes("pump")
    store.thin(1e9, LedgerBudget(megabytes=0.15 * whole / 1e6, every=100, mean_seconds=600))
    assert counts(store, 1740, 1860) == (120, 120)
    assert counts(store, 3 * HOUR, 4 * HOUR)[0] < 3600


def test_batches_are_not_written_twice(store: Store, clock: Clock) -> None:
    """After a kill, a machine writes again what it has written since its last state."""
    store.thin(1e9, BUDGET)
    before = counts(store)
    write(store, clock)
    assert counts(store) == before
    store.add_ledger("pump", HOURS * 60, batch(HOURS * HOUR, 0))
    store.flush()
    assert counts(store)[0] == before[0] + BATCH


def test_a_damaged_row_costs_its_windows_alone(store: Store) -> None:
    store.write_together(("UPDATE ledger SET data = ? WHERE batch = 3", (bytes(9),)))
    store.thin(1e9, BUDGET)
    assert counts(store)[1] == HOURS * 3600 - BATCH


def test_thinned_rows_of_several_machines_are_apart(store: Store, clock: Clock) -> None:
    write(store, clock, "fan")
    store.thin(1e9, BUDGET)
    with store.read() as snapshot:
        assert stands_for(snapshot.ledger("fan", 0, 1e9)).sum() == HOURS * 3600
        assert stands_for(snapshot.ledger("pump", 0, 1e9)).sum() == HOURS * 3600
    assert store.thin(1e9, NEVER) == {"fan": 0, "pump": 0}
