"""Ranks machines by urgency."""

from __future__ import annotations

from cgsa.decide.decision import UNKNOWN
from cgsa.events import NO_DATA, Case
from cgsa.live.alarms import SEVERITIES
from cgsa.live.worker_status import WorkerStatus


def attention_rank(status: WorkerStatus, case: Case | None) -> tuple[int, int, float, str]:
    """Return the sort key of a machine; the most urgent machine has the smallest.

    First machines with an alarm that nobody has acknowledged or shelved, the most severe first; then those with any
    other open case; then those whose state is unclear; then the rest by ascending trust in their diagnosis.
    """
    diagnosis = status.diagnosis
    trusted = None if diagnosis is None or diagnosis.trust is None else diagnosis.trust.accuracy
    trust = 0.0 if trusted is None else trusted
    if case is not None and case.open:
        unattended = case.state in {"raised", "cleared"} and case.shelved_until is None
        return (0 if unattended else 1), -SEVERITIES.index(case.severity), trust, status.machine
    verdict = None if diagnosis is None else diagnosis.state or diagnosis.verdict
    asks = status.commissioning is not None and status.commissioning.state == "question"
    unclear = status.problem is not None or asks or verdict in {None, NO_DATA, UNKNOWN}
    return (2 if unclear else 3), 0, trust, status.machine
