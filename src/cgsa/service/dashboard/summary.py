"""The status of a machine as pages show it first, and its place in the list of machines."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from cgsa.decide.decision import UNKNOWN
from cgsa.events import NO_DATA, OFF, Case, CaseState
from cgsa.live.monitored import MonitoredMachine
from cgsa.live.worker_status import WorkerStatus
from cgsa.service.dashboard.activity import ActivitySnapshot
from cgsa.service.ranking import attention_rank

DisplayStatus: TypeAlias = Literal[
    "alarm",
    "cleared",
    "acknowledged",
    "shelved",
    "unknown",
    "no data",
    "suspect",
    "unconfirmed",
    "healthy",
    "off",
    "waiting",
]
"""The status of a machine in one or two words:

- ``alarm``: an alarm is active and unacknowledged;
- ``cleared``: it cleared before anybody acknowledged it;
- ``acknowledged``, ``shelved``: an operator has acknowledged or shelved it;
- ``unknown``, ``no data``, ``suspect``: the newest verdict, for which no alarm has been raised (yet);
- ``unconfirmed``: the newest verdict is healthy, but the machine is not commissioned: it waits for a suitable start, or
  a person is asked;
- ``off``: the machine stands still and is not diagnosed;
- ``waiting``: no data have been received yet.
"""
DISPLAY_STATUSES: tuple[DisplayStatus, ...] = get_args(DisplayStatus)
_STATUS_OF_CASES: Mapping[CaseState, DisplayStatus] = {
    "raised": "alarm",
    "acknowledged": "acknowledged",
    "cleared": "cleared",
    "closed": "healthy",
}
GOOD_TRUST, LOW_TRUST = 0.8, 0.5
"""Trust is called good from the first share of correctly diagnosed windows on, and low below the second."""
MIN_SILENCE = 3.0
"""Seconds without a batch that do not count as silence, however short the batches are."""


@dataclass(frozen=True, eq=False)
class MachineSummary:
    """Status of one machine and of the worker that monitors it."""

    status: WorkerStatus
    case: Case | None
    """The open case; None if there is none."""
    activity: ActivitySnapshot
    classes: tuple[str, ...]
    batch_seconds: float
    silence_seconds: float | None = None
    """Silence that a machine with measurements in bursts may keep; None for others."""
    wall_time: float = 0.0
    """When this summary was made, in seconds since 1970."""

    @classmethod
    def of(cls, worker: MonitoredMachine, activity: ActivitySnapshot) -> MachineSummary:
        """Return the summary of a worker without waiting for it."""
        status, manifest, config = worker.status(), worker.manifest, worker.watch_config
        case = status.case
        return cls(
            status=status,
            case=case if case is not None and case.open else None,
            activity=activity,
            classes=manifest.classes,
            batch_seconds=config.batch_size * manifest.window.step / manifest.sample_rate,
            silence_seconds=None if config.intermittent is None else config.silence_seconds,
            wall_time=time.time(),
        )

    @property
    def machine(self) -> str:
        """Name of the machine."""
        return self.status.machine

    @property
    def verdict(self) -> str | None:
        """The newest state, joined over time; None before the first batch."""
        diagnosis = self.status.diagnosis
        return None if diagnosis is None else diagnosis.state or diagnosis.verdict

    @property
    def silent(self) -> bool:
        """Whether data have stopped for longer than a few batches, or a measurement is overdue."""
        if self.silence_seconds is not None:
            return self.status.diagnosis is not None and self.measured_ago > self.silence_seconds
        limit = max(MIN_SILENCE, 4 * self.batch_seconds)
        return self.status.diagnosis is not None and self.activity.silent_seconds > limit

    @property
    def measured_ago(self) -> float:
        """Seconds since the newest sample, by the clock of the service."""
        return max(0.0, self.wall_time - self.status.now)

    @property
    def display_status(self) -> DisplayStatus:
        """The status in one or two words."""
        if self.case is not None:
            return "shelved" if self.case.shelved_until is not None else _STATUS_OF_CASES[self.case.state]
        verdict = self.verdict
        if verdict is None:
            return "waiting"
        if verdict == NO_DATA or self.silent:
            return "no data"
        if verdict in {UNKNOWN, OFF}:
            return "unknown" if verdict == UNKNOWN else "off"
        if verdict != self.classes[0]:
            return "suspect"
        commissioning = self.status.commissioning
        # Nobody knows yet whether such a machine is healthy, or what its signal is.
        doubtful = commissioning is not None and (commissioning.state == "question" or commissioning.cause is not None)
        return "unconfirmed" if doubtful else "healthy"

    @property
    def trust(self) -> float | None:
        """Estimated share of correctly diagnosed windows; None if unknown."""
        diagnosis = self.status.diagnosis
        return None if diagnosis is None or diagnosis.trust is None else diagnosis.trust.accuracy

    @property
    def rank(self) -> tuple[int, int, int, str]:
        """Sort key of the list of machines; the machine that needs attention first has the smallest.

        Trust counts in coarse levels: it fluctuates, and rows that keep changing places are hard to read.
        """
        kind, severity, _, machine = attention_rank(self.status, self.case)
        # attention_rank does not know which machines are silent, or not healthy without an alarm.
        kind = kind if self.display_status in {"healthy", "off"} else min(kind, 2)
        return kind, severity, trust_level(self.trust), machine


def trust_level(trust: float | None) -> int:
    """Return 0 for low trust, 1 for fair or unknown and 2 for good."""
    if trust is None:
        return 1
    return 0 if trust < LOW_TRUST else 1 if trust < GOOD_TRUST else 2
