from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.live.store import MAX_PAGE, Store, StoredDiagnosis
from cgsa.service.dashboard.timeline import MAX_POINTS, DiagnosisTimeline, Interval, join_intervals, read_timeline
from tests.service.dashboard.examples import CASE, diagnosis


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def timeline(store: Store, count: int, begin: float, end: float) -> DiagnosisTimeline:
    for number in range(count):
        store.add_diagnosis(StoredDiagnosis("m", diagnosis(number)))
    store.flush()
    with store.read() as snapshot:
        return read_timeline(snapshot, "m", begin, end)


def test_a_short_timeline_is_complete_and_in_order(store: Store) -> None:
    found = timeline(store, 40, 10.0, 40.0)
    assert [one.batch for one in found.diagnoses] == list(range(9, 40))
    assert not found.thinned


def test_a_longer_timeline_is_thinned_and_ends_with_the_newest(store: Store) -> None:
    found = timeline(store, 700, 0.0, 700.0)
    assert len(found.diagnoses) <= MAX_POINTS
    assert found.diagnoses[-1].batch == 699
    assert found.thinned


def test_a_long_timeline_is_sampled_evenly(store: Store) -> None:
    count = MAX_PAGE + 500
    found = timeline(store, count, 0.0, count + 1.0)
    assert len(found.diagnoses) == MAX_POINTS
    gaps = {after.batch - before.batch for before, after in pairwise(found.diagnoses)}
    assert gaps <= {4, 5, 6}
    assert found.thinned


def test_a_period_without_diagnoses_is_empty(store: Store) -> None:
    found = timeline(store, 0, 0.0, 10.0)
    assert (found.diagnoses, found.states(), found.alarms(), found.thinned) == ((), [], [], False)


@given(st.lists(st.sampled_from("abc"), max_size=30))
def test_intervals_cover_the_parts_that_they_join(states: list[str]) -> None:
    parts = [(float(number), number + 1.5, state) for number, state in enumerate(states)]
    found = join_intervals(parts)
    for one, following in pairwise(found):
        assert one.end == following.begin
        assert one.name != following.name
    for number, state in enumerate(states):
        inside = [one.name for one in found if one.begin <= number + 0.5 < one.end]
        assert inside == [state]


def test_alarms_are_cut_at_the_ends_of_the_timeline() -> None:
    closed = replace(CASE, number=1, opened=-5.0, closed=3.0, state="closed")
    old = replace(CASE, number=2, opened=-9.0, closed=-6.0, state="closed")
    still = replace(CASE, number=3, opened=8.0)
    found = DiagnosisTimeline(0.0, 10.0, (), thinned=False, cases=(still, closed, old))
    assert found.alarms() == [Interval(0.0, 3.0, "wear"), Interval(8.0, 10.0, "wear")]
