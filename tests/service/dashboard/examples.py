"""Hand-made diagnoses, statuses and summaries for tests."""

from __future__ import annotations

from dataclasses import replace

from cgsa.events import NO_DATA, Case, Diagnosis, Trust
from cgsa.live.watch import WatchCounts
from cgsa.live.worker_status import WorkerStatus
from cgsa.service.dashboard.activity import ActivitySnapshot
from cgsa.service.dashboard.summary import MachineSummary
from tests.machines import CLASSES

TRUST = Trust(agreement=1.0, coverage=0.9, accuracy=0.95, note="learning: 12 of 16 windows trusted")
CASE = Case(1, "raised", "high", "wear", ("wear",), opened=5.0, changed=5.0)


def diagnosis(number: int = 0, state: str = "health", fault: float = 0.1, alarm: str | None = None) -> Diagnosis:
    """Return the batch of one second."""
    probabilities = {} if state == NO_DATA else {"health": 1 - fault, "wear": fault, "crack": 0.0}
    return Diagnosis(
        batch=number,
        source="m",
        begin=float(number),
        end=number + 1.0,
        windows=16,
        verdict=state,
        probabilities=probabilities,
        accepted=12,
        deviation=None,
        state=state,
        alarm=alarm,
        trust=None if state == NO_DATA else TRUST,
    )


def status(
    newest: Diagnosis | None = None, learning: str = "learning", waiting: float = 0.0, machine: str = "m"
) -> WorkerStatus:
    now = 0.0 if newest is None else newest.end
    return WorkerStatus(machine, "normal", newest, learning, waiting, 0, WatchCounts(), now, None)


def summary(
    newest: Diagnosis | None = None,
    case: Case | None = None,
    activity: ActivitySnapshot | None = None,
    machine: str = "m",
    accuracy: float | None = None,
) -> MachineSummary:
    if newest is not None and accuracy is not None:
        newest = replace(newest, trust=replace(TRUST, accuracy=accuracy))
    shown = activity or ActivitySnapshot()
    return MachineSummary(status(newest, machine=machine), case, shown, CLASSES, 1.0)
