from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.errors import ConfigError
from cgsa.events import Case, CaseState
from cgsa.live.store import DeliveryRecord, DeliveryState
from cgsa.service.sinks.escalation import Escalation, EscalationConfig, due_escalation

CONFIG = EscalationConfig(("shift", "lead", "manager"), undelivered_after=60.0, unacknowledged_after=600.0)
CASE = Case(1, "raised", "high", "wear", ("wear",), opened=0.0, changed=0.0)


def record(sink: str, state: DeliveryState, *, time: float = 0.0, error: str = "") -> DeliveryRecord:
    finished = time + 5.0 if state in {"delivered", "failed"} else None
    return DeliveryRecord("m", 1, 0, 1, sink, time, state, "{}", error=error, finished=finished)


def test_the_next_sink_is_told_if_one_does_not_confirm_in_time() -> None:
    waiting = [record("shift", "notifying", error="connection refused")]
    assert due_escalation(CONFIG, waiting, CASE, 59.0) is None
    assert due_escalation(CONFIG, waiting, CASE, 61.0) == Escalation(
        "lead", "not delivered to shift within 1 min: connection refused"
    )
    second = [*waiting, record("lead", "notifying", time=61.0)]
    assert due_escalation(CONFIG, second, CASE, 100.0) is None
    assert due_escalation(CONFIG, second, CASE, 121.0) == Escalation("manager", "not delivered to lead within 1 min")


def test_the_next_sink_is_told_at_once_if_one_gives_up() -> None:
    failed = [record("shift", "failed", error="mailbox unknown")]
    assert due_escalation(CONFIG, failed, CASE, 6.0) == Escalation("lead", "not delivered to shift: mailbox unknown")


def test_the_next_sink_is_told_if_nobody_acknowledges_a_severe_alarm() -> None:
    delivered = [record("shift", "delivered")]
    assert due_escalation(CONFIG, delivered, CASE, 604.0) is None
    assert due_escalation(CONFIG, delivered, CASE, 605.0) == Escalation(
        "lead", "not acknowledged 10 min after shift was notified"
    )
    assert due_escalation(CONFIG, delivered, replace(CASE, severity="medium"), 9999.0) is None


STATES: list[DeliveryState] = ["held", "notifying", "delivered", "failed", "withdrawn"]
CASES: list[CaseState] = ["raised", "acknowledged", "cleared", "closed"]


@given(
    states=st.lists(st.sampled_from(STATES), max_size=3),
    case=st.sampled_from(CASES),
    shelved_until=st.sampled_from([None, 1e9]),
    now=st.floats(0, 1e5),
)
def test_only_an_unattended_alarm_escalates_and_to_each_step_once(
    states: list[DeliveryState], case: CaseState, shelved_until: float | None, now: float
) -> None:
    found = [record(sink, state) for sink, state in zip(CONFIG.steps, states, strict=False)]
    present = replace(CASE, state=case, shelved_until=shelved_until)
    due = due_escalation(CONFIG, [*found, record("log", "failed")], present, now)
    if due is not None:
        assert case == "raised"
        assert shelved_until is None
        assert due.sink == CONFIG.steps[len(found)]
        assert found[-1].state not in {"held", "withdrawn"}
    assert due_escalation(EscalationConfig(), found, present, now) is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"undelivered_after": 0.0}, "undelivered_after 0; expected seconds, more than 0"),
        ({"steps": ("a", "a")}, "expected different sinks"),
        ({"severities": ("severe",)}, "expected some of low, medium, high"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EscalationConfig(**settings)  # type: ignore[arg-type] # wrong on purpose
