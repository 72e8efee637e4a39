from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.events import NO_DATA, OFF, AlarmChange, Change, Operation
from cgsa.live.intake.refusals import Refusal
from cgsa.live.intermittent import Measurements
from cgsa.live.refused_run import RefusedRun
from cgsa.live.retries import Problem
from cgsa.service.dashboard import labels
from cgsa.service.dashboard.activity import ActivitySnapshot, SensorFault
from tests.service.dashboard.examples import CASE, diagnosis, status, summary


def test_describes_problems_of_the_data() -> None:
    faulty = ActivitySnapshot(sensor_fault=SensorFault("flat line on a", since=0.0))
    silent = ActivitySnapshot(silent_seconds=75.0)
    for one, expected in (
        (summary(diagnosis(11, state=NO_DATA), activity=faulty), "no data for 12 s: flat line on a"),
        (summary(diagnosis(11), activity=faulty), "some windows rejected by the quality gate: flat line on a"),
        (summary(diagnosis(), activity=silent), "no data for 1 min 15 s: the sensor sends nothing"),
        (summary(diagnosis()), None),
    ):
        assert labels.describe_data_problem(one) == expected


def test_describes_what_keeps_a_machine_from_being_monitored() -> None:
    well = status(diagnosis())
    run = RefusedRun(5.0, 404, 40.4, "duplicate or late", "block of m, sequence 403: expected blocks in order")
    failing = Problem("save the state", "No space left on device", "/var: cannot be written", 0.0, 3)
    stopped = replace(well, work="stopped", problem="the watch stopped: IndexError('x')")
    refused, late = replace(well, refused_run=run), replace(well, clock_skew=-7200.0)
    retrying, ahead = replace(well, work="retrying", problems=(failing,)), replace(well, clock_skew=3600.0)
    for describe, one, expected in (
        (labels.describe_work, well, None),
        (labels.describe_work, stopped, "not monitored: the watch stopped: IndexError('x')"),
        (
            labels.describe_work,
            retrying,
            "cannot save the state: No space left on device, 3 attempts. It is tried again",
        ),
        (labels.describe_refused_run, well, None),
        (labels.describe_clock, well, None),
        (labels.describe_clock, replace(well, clock_skew=-3.0), None),
        (labels.describe_clock, ahead, "the clock of the sender is 1 h ahead of this computer's"),
        (labels.describe_clock, late, "blocks arrive 2 h after their time stamps"),
    ):
        assert describe(one) == expected
    assert str(labels.describe_refused_run(refused)).startswith("404 blocks with 40.4 s of signal refused")
    for one, expected in (
        (stopped, "not monitored: the watch stopped: IndexError('x')"),
        (refused, "no data: 404 blocks refused, duplicate or late"),
        (replace(well, refused_run=replace(run, count=2)), None),
    ):
        assert labels.describe_data_problem(replace(summary(diagnosis()), status=one)) == expected


@pytest.mark.parametrize(
    ("learning", "waiting", "sentence", "label"),
    [
        ("learning", 0.0, "learning: 12 of 16 windows trusted", "learning"),
        ("frozen", 0.0, "learning frozen: windows are diagnosed but not used for learning", "frozen"),
        ("shed", 3.1, "3.1 s behind: learning suspended", "suspended"),
        ("catching up", 65.0, "catching up: 1 min 5 s of signal waiting", "catching up"),
    ],
)
def test_describes_whether_the_method_learns(learning: str, waiting: float, sentence: str, label: str) -> None:
    one = status(diagnosis(), learning, waiting)
    assert labels.describe_learning(one) == sentence
    assert labels.learning_label(one) == label


def test_describes_why_the_method_cannot_learn_yet() -> None:
    assert labels.describe_learning(status()) == "not learning yet: waiting for the first batch"
    assert (
        labels.describe_learning(status(diagnosis(state=NO_DATA)))
        == "learning paused: all windows rejected by the quality gate"
    )
    assert labels.learning_label(status()) == "not yet"
    assert labels.learning_label(status(diagnosis(state=NO_DATA))) == "paused"


def test_the_verdict_names_the_fault_of_the_case_and_the_present_state() -> None:
    assert labels.describe_verdict(summary()) == "no data received yet"
    worn = replace(diagnosis(state="gear_wear"), probabilities={"health": 0.1, "gear_wear": 0.9})
    assert labels.describe_verdict(summary(worn)) == "gear wear"
    assert labels.describe_verdict(summary(replace(worn, state="unknown"))) == "unknown, like gear wear (90 %)"
    assert labels.describe_verdict(summary(diagnosis(), CASE)) == "wear; now health"
    level = replace(CASE, fault="level alarm: gearbox_z velocity")
    assert labels.describe_verdict(summary(diagnosis(), level)) == (
        "level alarm: gearbox z velocity; diagnosis: health"
    )
    assert labels.describe_verdict(summary(diagnosis(), replace(level, state="cleared"))) == (
        "level alarm: gearbox z velocity; now health"
    )
    assert (
        labels.describe_verdict(summary(diagnosis(), activity=ActivitySnapshot(silent_seconds=60.0)))
        == "last known: health"
    )


def test_times_are_in_the_time_zone_of_the_browser() -> None:
    midnight = 1_700_006_400.0  # 2023-11-15 00:00 UTC
    berlin = ZoneInfo("Europe/Berlin")
    assert labels.format_time(midnight, berlin, midnight) == "01:00:00"
    assert labels.format_time(midnight - 3600, berlin, midnight) == "00:00:00"
    assert labels.format_time(midnight - 3600, UTC, midnight) == "2023-11-14 23:00:00"
    assert labels.describe_since(summary(diagnosis(), activity=ActivitySnapshot(since=3600.0)), UTC) == "since 01:00:00"
    assert labels.describe_since(summary(), UTC) == ""


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (40.0, "00:00:40.000"),
        (40.401, "00:00:40.401"),
        (40.9994, "00:00:40.999"),
        (40.9996, "00:00:41.000"),
        (59.9999, "00:01:00.000"),
        (1_700_006_400.401, "2023-11-15 00:00:00.401"),
    ],
)
def test_milliseconds_are_rounded_before_the_seconds_are_shown(seconds: float, expected: str) -> None:
    assert labels.format_time(seconds, UTC, 0.0, milliseconds=True) == expected


@given(st.floats(0, 2e9))
def test_times_with_milliseconds_are_within_half_a_millisecond(seconds: float) -> None:
    shown = datetime.fromisoformat(labels.format_time(seconds, UTC, milliseconds=True)).replace(tzinfo=UTC)
    assert abs(shown.timestamp() - seconds) < 0.000_501


@given(st.floats(0, 1e8))
def test_durations_are_rounded_down(seconds: float) -> None:
    sizes = {"d": 86_400, "h": 3600, "min": 60, "s": 1}
    parts = labels.format_duration(seconds).split()
    shown = sum(int(number) * sizes[unit] for number, unit in zip(parts[::2], parts[1::2], strict=True))
    assert len(parts) <= 4
    assert shown <= seconds
    assert seconds - shown < sizes[parts[-1]] * (24 if parts[-1] == "d" else 60)


@pytest.mark.parametrize("share", [0.004, 0.996, 0.9999])
def test_nearly_certain_is_not_shown_as_certain(share: float) -> None:
    assert labels.format_percent(share) in {"<1 %", ">99 %"}


def test_trust_is_a_level_and_a_number() -> None:
    assert labels.describe_trust(summary(diagnosis(), accuracy=0.3)) == "low, 30 %"
    assert labels.describe_trust(summary()) == "not known"


def test_describes_the_state_of_a_case() -> None:
    assert labels.describe_case_state(CASE, UTC, 9.0) == "active, unacknowledged"
    acknowledged = replace(CASE, state="acknowledged", acknowledged_by="ann")
    assert labels.describe_case_state(acknowledged, UTC, 9.0) == "active, acknowledged by ann"
    shelved = replace(CASE, shelved_until=3600.0)
    assert labels.describe_case_state(shelved, UTC, 9.0) == "shelved until 01:00:00: no notifications"
    assert labels.describe_case_state(replace(CASE, state="cleared"), UTC, 9.0) == "cleared, unacknowledged"
    assert labels.describe_case_state(replace(CASE, state="closed"), UTC, 9.0) == "closed"


@pytest.mark.parametrize(
    ("change", "who", "text", "expected"),
    [
        ("opened", None, "", "opened: wear"),
        ("acknowledged", "ann", "on my way", "acknowledged by ann: on my way"),
        ("cleared", None, "", "cleared: wear"),
    ],
)
def test_describes_changes_of_a_case(change: Change, who: str | None, text: str, expected: str) -> None:
    assert (
        labels.describe_change(AlarmChange("m", 1.0, change, "wear", notify=False, case=CASE, who=who, text=text))
        == expected
    )


def test_describes_when_a_machine_is_measured() -> None:
    one = summary(diagnosis(5399))
    hourly = Measurements(3600.0, 3600.0, 5400.0, 7200.0)
    one = replace(one, status=replace(one.status, measurements=hourly), silence_seconds=3660.0, wall_time=6780.0)
    assert labels.describe_measurements(one) == "last measurement 23 min ago, next expected in 7 min"
    assert labels.describe_data_problem(one) is None
    assert one.display_status == "healthy"
    late = replace(one, wall_time=9300.0)
    assert late.display_status == "no data"
    expected = "no data: last measurement 1 h 5 min ago, next expected 35 min ago"
    assert labels.describe_data_problem(late) == expected
    assert labels.describe_measurements(summary(diagnosis())) is None


def test_describes_a_machine_that_stands_still() -> None:
    one = summary(replace(diagnosis(), state=OFF, verdict=OFF, probabilities={}, trust=None))
    off = replace(one.status, operation=Operation("off", 0.0, 45_000.0))
    assert one.display_status == "off"
    assert labels.describe_verdict(one) == "off, standing still"
    assert (
        labels.describe_operation(off, UTC)
        == "standing still since 00:00:00, not diagnosed and no alarm; 12 h 30 min of run time"
    )
    assert labels.describe_learning(one.status) == "learning paused while the machine stands still"
    running = replace(off, operation=Operation("running", None, 360.0))
    assert labels.describe_operation(running, UTC) == "running; 6 min of run time"
    assert labels.describe_operation(one.status, UTC) is None


def test_describes_what_was_refused() -> None:
    one = status(diagnosis())
    assert labels.describe_refusal(one, UTC) is None
    refused = replace(one, last_refused=Refusal("block", 0.5, "wrong rate", "block of m, sequence 3: 1 Hz", 3))
    assert labels.describe_refusal(refused, UTC) == "last refused, 00:00:00: block of m, sequence 3: 1 Hz"
