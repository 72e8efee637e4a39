from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.errors import DataError
from cgsa.live.store import MaintenanceWindow, Repeats, Store
from cgsa.service.maintenance import MaintenanceCalendar, Occurrence, describe_occurrence, occurrence
from cgsa.service.rights import Person

HOUR, DAY = 3600.0, 86_400.0
BERLIN = ZoneInfo("Europe/Berlin")
ANN = Person("ann", "operator", ("press-*",))
ADMIN = Person("root", "admin")


def window(begin: datetime, hours: float, repeats: Repeats = "once") -> MaintenanceWindow:
    start = begin.timestamp()
    return MaintenanceWindow(1, ("*",), start, start + hours * HOUR, repeats, "Europe/Berlin", "ann", "oil", start)


def literal_occurrence(one: MaintenanceWindow, now: float) -> Occurrence | None:
    """Try one day after the other."""
    if one.repeats == "once":
        return Occurrence(one.begin, one.end) if now < one.end else None
    first = datetime.fromtimestamp(one.begin, BERLIN).replace(tzinfo=None)
    day = 0
    while True:
        begin = (first + timedelta(days=day)).replace(tzinfo=BERLIN).timestamp()
        end = begin + (one.end - one.begin)
        if now < end:
            return Occurrence(begin, end)
        day += 1 if one.repeats == "daily" else 7


@given(
    hour=st.integers(0, 23),
    hours=st.floats(0.1, 24),
    repeats=st.sampled_from(["once", "daily", "weekly"]),
    days=st.floats(-3, 500),
)
def test_a_window_repeats_at_the_same_time_of_day(hour: int, hours: float, repeats: Repeats, days: float) -> None:
    one = window(datetime(2026, 1, 5, hour, 30, tzinfo=BERLIN), hours, repeats)
    now = one.begin + days * DAY
    assert occurrence(one, now) == literal_occurrence(one, now)


def test_the_time_of_day_stays_when_the_clocks_change() -> None:
    one = window(datetime(2026, 3, 27, 8, 0, tzinfo=BERLIN), 1, "daily")
    later = occurrence(one, datetime(2026, 3, 30, 0, 0, tzinfo=BERLIN).timestamp())
    assert later is not None
    assert datetime.fromtimestamp(later.begin, BERLIN).hour == 8
    assert later.begin - one.begin == 3 * DAY - HOUR
    assert describe_occurrence(one, later) == "* from 2026-03-30 08:00 to 09:00 CEST, daily"


@pytest.fixture
def calendar(tmp_path: Path) -> Iterator[MaintenanceCalendar]:
    with Store(tmp_path / "store.sqlite") as store:
        yield MaintenanceCalendar(store, clock=lambda: 1000.0)


def test_windows_survive_a_restart_and_can_be_ended(tmp_path: Path) -> None:
    now = 1000.0
    with Store(tmp_path / "store.sqlite") as store:
        calendar = MaintenanceCalendar(store, clock=lambda: now)
        calendar.add(ANN, ("press-*",), 1000.0, 2000.0, reason="new belt")
        calendar.add(ADMIN, ("fan",), 1500.0, 1600.0, reason="oil", repeats="daily")
    with Store(tmp_path / "store.sqlite") as store:
        calendar = MaintenanceCalendar(store, clock=lambda: now)
        assert [one.number for one in calendar.windows] == [2, 1]
        assert (calendar.until("press-1"), calendar.until("fan"), calendar.until("mill")) == (2000.0, None, None)
        assert calendar.until("fan", 1500.0 + DAY) == 1600.0 + DAY
        calendar.end(1, ANN)
        assert calendar.until("press-1") is None
        with pytest.raises(DataError, match="is over already"):
            calendar.end(1, ANN)
    with Store(tmp_path / "store.sqlite") as store:
        ended = MaintenanceCalendar(store, clock=lambda: now).windows[1]
        assert (ended.ended, ended.ended_by) == (1000.0, "ann")


@pytest.mark.parametrize(
    ("machines", "span", "more", "message"),
    [
        ((), (1000, 2000), {}, "machines: empty"),
        (("*",), (1000, 2000), {}, "valid for other machines only"),
        (("press 1",), (1000, 2000), {}, "expected at most 64 names or patterns"),
        (("press-1",), (2000, 1500), {}, "expected times in order"),
        (("press-1",), (100, 900), {}, "an end in the future"),
        (("press-1",), (1000, 1000 + 2 * DAY), {"repeats": "daily"}, "at most 24 hours"),
        (("press-1",), (1000, 2000), {"zone": "Mars/Olympus"}, "expected a name such as Europe/Berlin"),
        (("press-1",), (1000, 2000), {"reason": " "}, "expected a few words"),
    ],
)
def test_wrong_windows_are_refused(
    calendar: MaintenanceCalendar,
    machines: tuple[str, ...],
    span: tuple[float, float],
    more: dict[str, object],
    message: str,
) -> None:
    with pytest.raises(DataError, match=message):
        calendar.add(ANN, machines, *span, **{"reason": "belt", **more})  # type: ignore[arg-type] # as in a request
    assert calendar.windows == ()


def test_windows_of_another_process_are_taken_over(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        one, other = (MaintenanceCalendar(store, clock=lambda: 1000.0) for _ in range(2))
        assert one.add(ANN, ("press-1",), 1000.0, 2000.0, reason="belt").number == 1
        assert other.add(ANN, ("press-2",), 1000.0, 2000.0, reason="belt").number == 2
        assert other.until("press-1") is None
        other.refresh()
        assert other.until("press-1") == 2000.0
        one.end(2, ANN)  # which it has not read yet
        one.refresh()
        other.refresh()
        assert [[window.ended for window in each.windows] for each in (one, other)] == [[1000.0, None]] * 2


def test_only_whoever_may_use_all_its_machines_ends_a_window(calendar: MaintenanceCalendar) -> None:
    calendar.add(ADMIN, ("*",), 1000.0, 2000.0, reason="whole plant")
    with pytest.raises(DataError, match="there is no maintenance 1"):
        calendar.end(1, ANN)


NAMES = ["".join(one) for length in range(5) for one in product("ab", repeat=length)]
PATTERNS = st.text("ab*?", min_size=1, max_size=4)


@given(token=PATTERNS, wanted=PATTERNS)
def test_a_token_covers_a_pattern_only_if_it_covers_all_its_machines(token: str, wanted: str) -> None:
    if Person("x", "operator", (token,)).covers_pattern(wanted):
        assert all(fnmatchcase(name, token) for name in NAMES if fnmatchcase(name, wanted))


def test_a_window_is_described_in_the_times_of_its_zone() -> None:
    one = window(datetime(2026, 1, 5, 23, 0, tzinfo=UTC), 2)
    assert describe_occurrence(one, Occurrence(one.begin, one.end)) == (
        "* from 2026-01-05 23:00 to 2026-01-06 01:00 UTC"
    )
