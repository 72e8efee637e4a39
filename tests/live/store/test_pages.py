from __future__ import annotations

import itertools
import threading
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgsa.errors import DataError
from cgsa.events import Note
from cgsa.live.store import RowPage, RowSelection, Store
from tests.live.store.examples import OLDEST, every, stored_diagnosis

NUMBERS = itertools.count()


@settings(max_examples=20)
@given(
    times=st.lists(st.integers(0, 5), max_size=30), limit=st.integers(1, 7), newest_first=st.booleans(), data=st.data()
)
def test_pages_hold_every_row_once(
    *, times: list[int], limit: int, newest_first: bool, data: st.DataObject, shared: Store
) -> None:
    machine = f"pump-{next(NUMBERS)}"
    for position, time in enumerate(times):
        shared.add(position, 0, Note(machine, float(time), "gap", str(position)))
        shared.add(position, 0, Note("fan", float(time), "gap", str(position)))
    shared.flush()
    name, pattern = data.draw(st.sampled_from([(machine, ()), (None, (machine,)), (None, (f"?u*{machine[4:]}",))]))
    with shared.read() as view:
        rows = every(
            lambda pick: view.notes(name, pick=replace(pick, machines=pattern)), limit=limit, newest_first=newest_first
        )
    order = sorted(range(len(times)), key=lambda n: (times[n], n), reverse=newest_first)
    assert [row.text for row in rows if isinstance(row, Note)] == [str(n) for n in order]


def test_pages_hold_every_row_once_during_writes(store: Store) -> None:
    for position in range(0, 600, 2):
        store.add(position, 0, Note("pump", float(position), "gap", str(position)))
    store.flush()
    begun, stop = threading.Event(), threading.Event()

    def write() -> None:
        # Between the existing rows, before them and after them.
        for n, position in enumerate(range(1, 600, 2)):
            store.add(position, 0, Note("pump", float((position * 7) % 600) - 0.5, "gap", str(position)))
            if n == 5:
                begun.set()
        store.flush()
        stop.set()

    def page(pick: RowSelection) -> RowPage[object]:
        with store.read() as view:
            return view.notes("pump", pick=pick)

    writer = threading.Thread(target=write)
    writer.start()
    begun.wait()
    walks = 0
    while not stop.is_set() or walks < 2:
        seen = [int(row.text) for row in every(page, limit=9, newest_first=bool(walks % 2)) if isinstance(row, Note)]
        assert len(set(seen)) == len(seen)
        assert set(range(0, 600, 2)) <= set(seen)
        walks += 1
    writer.join()


def test_a_cursor_continues_with_new_rows(store: Store) -> None:
    store.add_diagnosis(stored_diagnosis(0))
    store.flush()
    with store.read() as view:
        first = view.diagnoses(pick=OLDEST)
        again = view.diagnoses(pick=replace(OLDEST, after=first.cursor))
    assert (first.more, again.rows, again.cursor) == (False, (), first.cursor)
    store.add_diagnosis(stored_diagnosis(1))
    store.flush()
    with store.read() as view:
        assert [row.diagnosis.batch for row in view.diagnoses(pick=replace(OLDEST, after=again.cursor)).rows] == [1]


@pytest.mark.parametrize("cursor", ["", "1", "x,1", "1.0,1.5", "1,2,3"])
def test_an_invalid_cursor_is_refused(cursor: str, store: Store) -> None:
    with store.read() as view, pytest.raises(DataError, match="expected the cursor of a page"):
        view.notes(pick=RowSelection(after=cursor))


def test_pages_are_bounded() -> None:
    for limit in (0, 1001):
        with pytest.raises(DataError, match="expected 1 to 1000"):
            RowSelection(limit=limit)
