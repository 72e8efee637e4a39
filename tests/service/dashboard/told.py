"""Diagnoses and statuses for tests, made by hand."""

from __future__ import annotations

from dataclasses import replace

from cgsa.events import NO_DATA, Case, Diagnosis, Trust
from cgsa.live.watch import WatchCounts
from cgsa.live.worker import WorkerStatus
from cgsa.service.dashboard.activity import ActivitySnapshot
from cgsa.service.dashboard.summary import Summary
from tests.machines import CLASSES

TRUST = Trust(agreement=1.0, coverage=0.9, accuracy=0.95, note="learning: 12 of 16 windows trusted")
CASE = Case(1, "raised", "high", "wear", ("wear",), opened=5.0, changed=5.0)


def diagnosis(number: int = 0, state: str = "health", fault: float = 0.1, alarm: str | None = None) -> Diagnosis:
    """The batch of one second."""
    shares = {} if state == NO_DATA else {"health": 1 - fault, "wear": fault, "crack": 0.0}
    return Diagnosis(
        batch=number,
        source="m",
        begin=float(number),
        end=number + 1.0,
        windows=16,
        verdict=state,
        probabilities=shares,
        accepted=12,
        deviation=None,
        state=state,
        alarm=alarm,
        trust=None if state == NO_DATA else TRUST,
    )


def status(
    told: Diagnosis | None = None, learning: str = "learning", waiting: float = 0.0, machine: str = "m"
) -> WorkerStatus:
    now = 0.0 if told is None else told.end
    return WorkerStatus(machine, "normal", told, learning, waiting, 0, WatchCounts(), now, None)


def summary(
    told: Diagnosis | None = None,
    case: Case | None = None,
    heard: ActivitySnapshot | None = None,
    machine: str = "m",
    accuracy: float | None = None,
) -> Summary:
    if told is not None and accuracy is not None:
        told = replace(told, trust=replace(TRUST, accuracy=accuracy))
    return Summary(status(told, machine=machine), case, heard or ActivitySnapshot(), "reference", CLASSES, 1.0)
