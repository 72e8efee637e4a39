"""Which machine asks for a look before the others."""

from __future__ import annotations

from cgsa.decide.decision import UNKNOWN
from cgsa.events import NO_DATA, Case
from cgsa.live.alarms import SEVERITIES
from cgsa.live.worker import WorkerStatus

Concern = tuple[int, int, float, str]


def attention_rank(status: WorkerStatus, case: Case | None) -> Concern:
    """Return what machines are ranked by; the one to look at first has the smallest.

    First those whose alarm nobody looks after, the gravest first; then those
    that somebody does; then those of which nobody knows how they are; then by
    how little their diagnosis is to be trusted.
    """
    told = status.diagnosis
    trust = 0.0 if told is None or told.trust is None or told.trust.accuracy is None else told.trust.accuracy
    if case is not None and case.open:
        waits = case.state in {"raised", "cleared"} and case.shelved_until is None
        return (0 if waits else 1), -SEVERITIES.index(case.severity), trust, status.machine
    verdict = None if told is None else told.state or told.verdict
    unclear = status.problem is not None or verdict in {None, NO_DATA, UNKNOWN}
    return (2 if unclear else 3), 0, trust, status.machine
