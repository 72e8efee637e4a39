"""Diagnoses and statuses for tests, made by hand."""

from __future__ import annotations

from dataclasses import replace

from cgsa.events import NO_DATA, Case, Diagnosis, Trust
from cgsa.live.watch import Counts
from cgsa.live.worker import Status
from cgsa.service.dashboard.pulse import Heard
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
) -> Status:
    now = 0.0 if told is None else told.end
    return Status(machine, "normal", told, learning, waiting, 0, Counts(), now, None)


def summary(
    told: Diagnosis | None = None,
    case: Case | None = None,
    heard: Heard | None = None,
    machine: str = "m",
    accuracy: float | None = None,
) -> Summary:
    if told is not None and accuracy is not None:
        told = replace(told, trust=replace(TRUST, accuracy=accuracy))
    return Summary(status(told, machine=machine), case, heard or Heard(), "reference", CLASSES, 1.0)
