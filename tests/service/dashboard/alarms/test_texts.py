from __future__ import annotations

from dataclasses import replace
from datetime import UTC

import pytest

from cgsa.service.dashboard.alarms.texts import describe_notification, describe_sink, is_undelivered
from cgsa.service.links.link import LinkStatus
from cgsa.service.sinks.delivery_log import NotificationSummary
from tests.service.dashboard.examples import CASE

FAILING = NotificationSummary("notifying", (), ("shift",), 2, "connection refused")
REASON = "not delivered to shift within 5 min: connection refused"


@pytest.mark.parametrize(
    ("found", "text", "warnings"),
    [
        (NotificationSummary("notifying", (), ("shift",)), "notifying shift", 0),
        (FAILING, "notifying shift: 2 attempts failed, connection refused", 1),
        (replace(FAILING, state="failed"), "not delivered to shift: connection refused", 1),
        (
            replace(FAILING, state="notified", delivered=("lead",), escalated=REASON),
            f"notified: lead; escalated: {REASON}",
            0,
        ),
        (NotificationSummary("notified", ("a", "b")), "notified: a, b", 0),
        (NotificationSummary("held"), "held until the maintenance ends", 0),
        (
            NotificationSummary("withdrawn"),
            "not notified: over or acknowledged when the maintenance ended",
            0,
        ),
        (NotificationSummary(), "nobody is notified: no receiver is set up", 0),
    ],
)
def test_the_state_of_a_notification_is_described(found: NotificationSummary, text: str, warnings: int) -> None:
    assert describe_notification(found, CASE) == text
    assert int(is_undelivered(found)) == warnings


def test_a_shelved_case_says_why_nobody_is_notified() -> None:
    assert describe_notification(NotificationSummary(), replace(CASE, shelved_until=9.0)) == "not notified: shelved"


def test_a_receiver_is_described_with_its_step_and_what_waits() -> None:
    status = LinkStatus("shift", "email", "down", 3600.0, why="connection refused")
    name, text = describe_sink(status, 2, ("shift",), UTC, 7200.0)
    assert name == "shift (e-mail)"
    assert text == "step 1, down since 01:00:00: connection refused; 2 notifications not delivered yet"
    assert describe_sink(replace(status, state="up", why=""), 0, (), UTC, 0.0) == ("shift (e-mail)", "working")
