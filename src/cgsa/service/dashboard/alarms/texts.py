"""Texts about notifications, maintenance and receivers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from cgsa.events import Case
from cgsa.service.dashboard.labels import format_time
from cgsa.service.links.link import LinkStatus
from cgsa.service.sinks.delivery_log import NotificationSummary

KINDS = {"email": "e-mail", "webhook": "webhook", "mqtt": "MQTT"}


def describe_notification(found: NotificationSummary, case: Case | None = None) -> str:
    """Return what became of the newest notification of a case.

    >>> describe_notification(NotificationSummary("notifying", (), ("shift",), 3, "connection refused"))
    'notifying shift: 3 attempts failed, connection refused'
    """
    # The reason of an escalation says what failed.
    rest = f"; {_failure(found)}" if found.undelivered and not found.escalated else ""
    escalated = f"; escalated: {found.escalated}" if found.escalated else ""
    match found.state:
        case "held":
            return "held until the maintenance ends"
        case "withdrawn":
            return "not notified: over or acknowledged when the maintenance ended"
        case "notified":
            return f"notified: {', '.join(found.delivered)}{rest}{escalated}"
        case "notifying" | "failed":
            return f"{_failure(found)}{escalated}"
    shelved = case is not None and case.shelved_until is not None
    return "not notified: shelved" if shelved else "nobody is notified: no receiver is set up"


def _failure(found: NotificationSummary) -> str:
    sinks = ", ".join(found.undelivered)
    if found.state == "failed":
        return f"not delivered to {sinks}: {found.error or 'given up'}"
    if not found.attempts:
        return f"notifying {sinks}"
    return f"notifying {sinks}: {found.attempts} attempt{'s' * (found.attempts > 1)} failed, {found.error}"


def is_undelivered(found: NotificationSummary) -> bool:
    """Return whether an operator should know that a notification has not arrived."""
    return found.state == "failed" or (found.state == "notifying" and found.attempts > 0)


def describe_sink(status: LinkStatus, waiting: int, steps: Sequence[str], zone: tzinfo, now: float) -> tuple[str, str]:
    """Return name and condition of a receiver of alarms."""
    step = f"step {steps.index(status.name) + 1}, " if status.name in steps else ""
    kind = KINDS.get(status.kind, status.kind)
    name = status.name if status.name == status.kind else f"{status.name} ({kind})"
    left = f"; {waiting} notification{'s' * (waiting != 1)} not delivered yet" if waiting else ""
    if status.state == "down":
        return name, f"{step}down since {format_time(status.since, zone, now)}: {status.why}{left}"
    note = f"; {status.note}" if status.note else ""
    return name, f"{step}{'working' if status.state == 'up' else status.state}{left}{note}"
