from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.events import NO_DATA, AlarmChange, Change
from cgsa.service.dashboard import labels as words
from cgsa.service.dashboard.activity import ActivitySnapshot, SensorFault
from tests.service.dashboard.told import CASE, diagnosis, status, summary


def test_says_what_is_wrong_with_the_data() -> None:
    trouble = ActivitySnapshot(trouble=SensorFault("flat line on a", since=0.0))
    assert words.data(summary(diagnosis(11, state=NO_DATA), heard=trouble)) == "no data for 12 s: flat line on a"
    assert words.data(summary(diagnosis(11), heard=trouble)) == "some windows are not believed: flat line on a"
    silent = summary(diagnosis(), heard=ActivitySnapshot(silent=75.0))
    assert words.data(silent) == "no data for 1 min 15 s: nothing comes from the sensor"
    assert words.data(summary(diagnosis())) is None


@pytest.mark.parametrize(
    ("learning", "waiting", "sentence"),
    [
        ("learning", 0.0, "learning: 12 of 16 windows trusted"),
        ("frozen", 0.0, "learning frozen: windows are diagnosed, none is learnt from"),
        ("shed", 3.1, "3.1 s behind: learning is shed"),
        ("catching up", 65.0, "catching up: 1 min 5 s of signal wait"),
    ],
)
def test_says_whether_it_learns(learning: str, waiting: float, sentence: str) -> None:
    one = status(diagnosis(), learning, waiting)
    assert words.learning(one) == sentence
    assert words.learning_in_short(one) == learning


def test_says_why_it_cannot_learn_yet() -> None:
    assert words.learning(status()) == "not learning yet: waiting for the first batch"
    assert words.learning(status(diagnosis(state=NO_DATA))) == "learning paused: nothing could be believed"
    assert words.learning_in_short(status()) == "not yet"
    assert words.learning_in_short(status(diagnosis(state=NO_DATA))) == "paused"


def test_verdict_names_the_fault_of_the_case_and_what_is_seen_now() -> None:
    assert words.verdict(summary()) == "nothing has come so far"
    assert words.verdict(summary(diagnosis(state="gear_wear"))) == "gear wear"
    assert words.verdict(summary(diagnosis(), CASE)) == "wear; now health"
    assert words.verdict(summary(diagnosis(), heard=ActivitySnapshot(silent=60.0))) == "last: health"


def test_times_are_those_of_the_person() -> None:
    midnight = 1_700_006_400.0  # 2023-11-15 00:00 UTC
    berlin = ZoneInfo("Europe/Berlin")
    assert words.moment(midnight, berlin, midnight) == "01:00:00"
    assert words.moment(midnight - 3600, berlin, midnight) == "00:00:00"
    assert words.moment(midnight - 3600, UTC, midnight) == "2023-11-14 23:00:00"
    assert words.since(summary(diagnosis(), heard=ActivitySnapshot(since=3600.0)), UTC) == "since 01:00:00"
    assert words.since(summary(), UTC) == ""


@given(st.floats(0, 1e8))
def test_durations_are_never_longer_than_they_are(seconds: float) -> None:
    sizes = {"d": 86_400, "h": 3600, "min": 60, "s": 1}
    parts = words.duration(seconds).split()
    told = sum(int(number) * sizes[unit] for number, unit in zip(parts[::2], parts[1::2], strict=True))
    assert len(parts) <= 4
    assert told <= seconds
    assert seconds - told < sizes[parts[-1]] * (24 if parts[-1] == "d" else 60)


@pytest.mark.parametrize("share", [0.004, 0.996, 0.9999])
def test_what_is_nearly_certain_is_not_told_as_certain(share: float) -> None:
    assert words.percent(share) in {"<1 %", ">99 %"}


def test_trust_is_a_word_and_a_number() -> None:
    assert words.trust(summary(diagnosis(), accuracy=0.3)) == "low, 30 %"
    assert words.trust(summary()) == "not known"


def test_says_how_a_case_stands() -> None:
    assert "nobody has acknowledged" in words.case(CASE, UTC, 9.0)
    assert "by ann" in words.case(replace(CASE, state="acknowledged", acknowledged_by="ann"), UTC, 9.0)
    assert words.case(replace(CASE, shelved_until=3600.0), UTC, 9.0) == "shelved until 01:00:00: it calls nobody"
    assert "over" in words.case(replace(CASE, state="cleared"), UTC, 9.0)
    assert words.case(replace(CASE, state="closed"), UTC, 9.0) == "closed"


@pytest.mark.parametrize(
    ("change", "who", "text", "told"),
    [
        ("opened", None, "", "opened for wear"),
        ("acknowledged", "ann", "on my way", "acknowledged by ann: on my way"),
        ("cleared", None, "", "wear is over"),
    ],
)
def test_says_what_happened_to_a_case(change: Change, who: str | None, text: str, told: str) -> None:
    assert words.change(AlarmChange("m", 1.0, change, "wear", notify=False, case=CASE, who=who, text=text)) == told
