from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cgsa.decide.decision import UNKNOWN
from cgsa.events import NO_DATA, Note
from cgsa.service.dashboard.activity import KEPT_SECONDS, ActivitySecond, RecentActivity, SensorFault, fault_probability
from tests.service.dashboard.examples import diagnosis


def sensor(time: float, reason: str, *, over: bool = False) -> Note:
    return Note("m", time, "sensor", reason, {"reason": reason, **({"since": 0.0} if over else {})})


def test_probability_of_any_fault_is_one_minus_that_of_health() -> None:
    assert fault_probability(diagnosis(fault=0.25)) == 0.25
    assert fault_probability(diagnosis(state=NO_DATA)) is None
    assert fault_probability(diagnosis(state=UNKNOWN)) is None


def test_keeps_the_worst_of_each_second_and_the_begin_of_a_state() -> None:
    activity = RecentActivity()
    activity.add(
        [diagnosis(0, fault=0.5), diagnosis(1, fault=0.25), diagnosis(1, fault=0.75, alarm="wear"), diagnosis(1)]
    )
    assert activity.snapshot().history == (ActivitySecond(1.0, 0.5, alarm=False), ActivitySecond(2.0, 0.75, alarm=True))
    activity.add([diagnosis(2, state="wear"), diagnosis(3, state="wear")])
    found = activity.snapshot()
    assert (found.state, found.since) == ("wear", 2.0)


def test_a_sensor_fault_lasts_until_its_end_is_reported() -> None:
    activity = RecentActivity()
    activity.add([sensor(4.0, "flat line on a")])
    assert activity.snapshot().sensor_fault == SensorFault("flat line on a", 4.0)
    activity.add([Note("m", 5.0, "gap", "2 blocks")])
    assert activity.snapshot().sensor_fault is not None
    activity.add([sensor(6.0, "flat line on a", over=True)])
    assert activity.snapshot().sensor_fault is None


def test_silence_is_measured_by_the_clock() -> None:
    now = 100.0
    activity = RecentActivity(lambda: now)
    activity.add([diagnosis()])
    now = 112.0
    assert activity.snapshot().silent_seconds == 12.0
    activity.add([sensor(0.0, "late")])
    assert activity.snapshot().silent_seconds == 12.0
    activity.add([diagnosis(1)])
    assert activity.snapshot().silent_seconds == 0.0


@given(before=st.integers(0, 20), after=st.integers(0, 20), overlap=st.integers(0, 5), states=st.data())
def test_loading_the_history_gives_the_same_as_adding_all_events(
    before: int, after: int, overlap: int, states: st.DataObject
) -> None:
    drawn = [states.draw(st.sampled_from(["health", "wear"])) for _ in range(before + after)]
    events = [diagnosis(number, state=state) for number, state in enumerate(drawn)]
    whole, late = RecentActivity(lambda: 0.0), RecentActivity(lambda: 0.0)
    whole.add(events)
    late.add(events[before:])
    # The store may already have some of the events that were added.
    late.load_history(events[: before + min(overlap, after)])
    assert late.history_loaded
    assert late.snapshot() == whole.snapshot()
    late.load_history(events)
    assert late.snapshot() == whole.snapshot()


def test_a_sensor_fault_that_ended_meanwhile_is_not_loaded() -> None:
    ended, lasting = RecentActivity(), RecentActivity()
    ended.add([sensor(6.0, "flat line on a", over=True)])
    for activity in (ended, lasting):
        activity.load_history([sensor(4.0, "flat line on a")])
    assert ended.snapshot().sensor_fault is None
    assert lasting.snapshot().sensor_fault == SensorFault("flat line on a", 4.0)


def test_keeps_no_more_than_the_last_minutes() -> None:
    activity = RecentActivity()
    activity.add([diagnosis(number) for number in range(KEPT_SECONDS + 50)])
    history = activity.snapshot().history
    assert len(history) == KEPT_SECONDS
    assert history[-1].time == KEPT_SECONDS + 50
