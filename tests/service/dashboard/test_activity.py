from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cgsa.decide.decision import UNKNOWN
from cgsa.events import NO_DATA, Note
from cgsa.service.dashboard.activity import KEPT_SECONDS, ActivitySecond, RecentActivity, SensorFault, fault_probability
from tests.service.dashboard.told import diagnosis


def sensor(time: float, reason: str, *, over: bool = False) -> Note:
    return Note("m", time, "sensor", reason, {"reason": reason, **({"since": 0.0} if over else {})})


def test_probability_of_any_fault_is_what_health_leaves() -> None:
    assert fault_probability(diagnosis(fault=0.25)) == 0.25
    assert fault_probability(diagnosis(state=NO_DATA)) is None
    assert fault_probability(diagnosis(state=UNKNOWN)) is None


def test_tells_the_worst_of_each_second_and_since_when_a_state_holds() -> None:
    pulse = RecentActivity()
    pulse.hear(
        [diagnosis(0, fault=0.5), diagnosis(1, fault=0.25), diagnosis(1, fault=0.75, alarm="wear"), diagnosis(1)]
    )
    assert pulse.heard().beats == (ActivitySecond(1.0, 0.5, alarm=False), ActivitySecond(2.0, 0.75, alarm=True))
    pulse.hear([diagnosis(2, state="wear"), diagnosis(3, state="wear")])
    heard = pulse.heard()
    assert (heard.state, heard.since) == ("wear", 2.0)


def test_knows_what_is_wrong_with_the_sensor_until_it_is_over() -> None:
    pulse = RecentActivity()
    pulse.hear([sensor(4.0, "flat line on a")])
    assert pulse.heard().trouble == SensorFault("flat line on a", 4.0)
    pulse.hear([Note("m", 5.0, "gap", "2 blocks")])
    assert pulse.heard().trouble is not None
    pulse.hear([sensor(6.0, "flat line on a", over=True)])
    assert pulse.heard().trouble is None


def test_silence_is_told_by_the_clock_on_the_wall() -> None:
    now = 100.0
    pulse = RecentActivity(lambda: now)
    pulse.hear([diagnosis()])
    now = 112.0
    assert pulse.heard().silent == 12.0
    pulse.hear([sensor(0.0, "late")])
    assert pulse.heard().silent == 12.0
    pulse.hear([diagnosis(1)])
    assert pulse.heard().silent == 0.0


@given(before=st.integers(0, 20), after=st.integers(0, 20), overlap=st.integers(0, 5), states=st.data())
def test_recalling_gives_what_hearing_all_of_it_would_have(
    before: int, after: int, overlap: int, states: st.DataObject
) -> None:
    drawn = [states.draw(st.sampled_from(["health", "wear"])) for _ in range(before + after)]
    told = [diagnosis(number, state=state) for number, state in enumerate(drawn)]
    whole, late = RecentActivity(lambda: 0.0), RecentActivity(lambda: 0.0)
    whole.hear(told)
    late.hear(told[before:])
    # The store may have got some of what was heard already.
    late.recall(told[: before + min(overlap, after)])
    assert late.recalled
    assert late.heard() == whole.heard()
    late.recall(told)
    assert late.heard() == whole.heard()


def test_a_trouble_that_ended_meanwhile_is_not_recalled() -> None:
    ended, lasting = RecentActivity(), RecentActivity()
    ended.hear([sensor(6.0, "flat line on a", over=True)])
    for pulse in (ended, lasting):
        pulse.recall([sensor(4.0, "flat line on a")])
    assert ended.heard().trouble is None
    assert lasting.heard().trouble == SensorFault("flat line on a", 4.0)


def test_keeps_no_more_than_its_time() -> None:
    pulse = RecentActivity()
    pulse.hear([diagnosis(number) for number in range(KEPT_SECONDS + 50)])
    beats = pulse.heard().beats
    assert len(beats) == KEPT_SECONDS
    assert beats[-1].time == KEPT_SECONDS + 50
