"""Escalation: which sink is notified next if an alarm does not arrive, or nobody acknowledges it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cgsa.errors import ConfigError
from cgsa.events import Case, Severity
from cgsa.live.alarms import SEVERITIES
from cgsa.live.store import DeliveryRecord


@dataclass(frozen=True)
class EscalationConfig:
    """The order in which sinks are notified, and when the next one is."""

    steps: tuple[str, ...] = ()
    """Names of sinks; the first is notified at once. Sinks that are not listed are notified at once, too."""
    undelivered_after: float = 300.0
    """Seconds in which a sink must confirm a notification."""
    unacknowledged_after: float = 900.0
    """Seconds in which a person must acknowledge an alarm once it is delivered."""
    severities: tuple[Severity, ...] = ("high",)
    """Severities of alarms that must be acknowledged in that time."""

    def __post_init__(self) -> None:
        for name in ("undelivered_after", "unacknowledged_after"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} {getattr(self, name):g}; expected seconds, more than 0")
        if len(set(self.steps)) < len(self.steps):
            raise ConfigError(f"steps {', '.join(self.steps)}; expected different sinks")
        wrong = [one for one in self.severities if one not in SEVERITIES]
        if wrong:
            raise ConfigError(f"severities {', '.join(wrong)}; expected some of {', '.join(SEVERITIES)}")


@dataclass(frozen=True)
class Escalation:
    """A notification that another sink is to get."""

    sink: str
    reason: str
    """Why, as text."""


def due_escalation(
    config: EscalationConfig, records: Sequence[DeliveryRecord], case: Case, now: float
) -> Escalation | None:
    """Return the escalation of a notification that is due; None if none is.

    Parameters
    ----------
    records
        What became of the notification so far, one record per sink.
    case
        The case of the notification, as it is now.
    now
        By the wall clock.
    """
    asked = [one for name in config.steps for one in records if one.sink == name]
    if case.state != "raised" or case.shelved_until is not None or not 0 < len(asked) < len(config.steps):
        return None
    last, following = asked[-1], config.steps[len(asked)]
    failure = f": {last.error}" if last.error else ""
    match last.state:
        case "failed":
            return Escalation(following, f"not delivered to {last.sink}{failure}")
        case "notifying" if now - last.time >= config.undelivered_after:
            return Escalation(following, f"not delivered to {last.sink} within {_span(now - last.time)}{failure}")
        case "delivered" if last.finished is not None and case.severity in config.severities:
            waited = now - last.finished
            if waited >= config.unacknowledged_after:
                return Escalation(following, f"not acknowledged {_span(waited)} after {last.sink} was notified")
    return None


def _span(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"
