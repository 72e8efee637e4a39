"""Of what several processes know of the same thing, the newest stays, in whatever order it is written."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgsa.events import AlarmChange, Case
from cgsa.live.store import DeliveryRecord, Store, StoredCase

NUMBERS = itertools.count()


@settings(max_examples=25)
@given(places=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), min_size=1, max_size=12))
def test_the_newest_change_of_a_case_stays(places: list[tuple[int, int]], shared: Store) -> None:
    """A process that was cut off may go on for a while with what it knew, and so may its repetitions."""
    machine = f"cases-{next(NUMBERS)}"
    for position, index in places:
        time = position + index / 10
        case = Case(1, "raised", "high", "crack", ("crack",), opened=0.0, changed=time)
        event = AlarmChange(machine, time, "raised", "crack", notify=True, case=case)
        shared.add(position, index, event)
    shared.flush()
    newest = max(places)
    with shared.read() as view:
        wanted = Case(1, "raised", "high", "crack", ("crack",), opened=0.0, changed=newest[0] + newest[1] / 10)
        assert view.cases(machine).rows == (StoredCase(machine, wanted),)
        assert len(view.changes(machine).rows) == len(set(places))


ASKED = DeliveryRecord("pump", 3, 0, 1, "mail", 100.0, "notifying", "{}")
FAILING = replace(ASKED, attempts=2, error="refused")
DELIVERED = replace(ASKED, state="delivered", finished=105.0)
AGAIN = replace(ASKED, time=200.0)
OTHER = replace(ASKED, event='{"another": "alarm"}')


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ([ASKED, FAILING, DELIVERED], DELIVERED),
        ([ASKED, DELIVERED, FAILING], DELIVERED),
        ([DELIVERED, ASKED], DELIVERED),
        ([DELIVERED, AGAIN], AGAIN),
        ([DELIVERED, OTHER], OTHER),
        ([DELIVERED, replace(DELIVERED, state="withdrawn")], replace(DELIVERED, state="withdrawn")),
        ([FAILING, ASKED], ASKED),
    ],
)
def test_what_is_delivered_stays_so_unless_it_is_asked_again(
    written: Sequence[DeliveryRecord], kept: DeliveryRecord, store: Store
) -> None:
    for record in written:
        store.put_delivery(record)
    store.flush()
    with store.read() as view:
        assert view.deliveries().rows == (kept,)
