"""Recent activity of a machine, small enough to be kept for hundreds of machines.

The list of machines must not query the store for each of them every second. So the dashboard subscribes to the events
of the plant and keeps what the list shows.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Lock

from cgsa.decide.decision import UNKNOWN
from cgsa.events import Diagnosis, Event, Note

KEPT_SECONDS = 300
"""Length of the history."""


@dataclass(frozen=True)
class ActivitySecond:
    """The worst of one second."""

    time: float
    """Stream time."""
    fault: float | None
    """Probability of any fault; None without data, or if the state is unknown."""
    alarm: bool


@dataclass(frozen=True)
class SensorFault:
    """Why samples are rejected, and since when."""

    reason: str
    since: float


@dataclass(frozen=True)
class ActivitySnapshot:
    """Recent activity at one time."""

    history: tuple[ActivitySecond, ...] = ()
    """Oldest first."""
    state: str | None = None
    since: float | None = None
    """Begin of that state, as far as it is known."""
    sensor_fault: SensorFault | None = None
    silent_seconds: float = 0.0
    """Wall-clock time since the last diagnosis."""


def fault_probability(diagnosis: Diagnosis) -> float | None:
    """Return the mean probability of any fault over a batch; None without data, or if the state is unknown.

    The healthy class is the first one, as in every bundle.
    """
    if diagnosis.state == UNKNOWN:
        # So far from the training data, the probabilities of the known classes mean nothing.
        return None
    healthy = next(iter(diagnosis.probabilities.values()), None)
    return None if healthy is None else min(1.0, max(0.0, 1.0 - healthy))


class RecentActivity:
    """Keeps the recent activity of one machine; worker threads add to it while pages read it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._history: deque[ActivitySecond] = deque(maxlen=KEPT_SECONDS)
        self._state: str | None = None
        self._since: float | None = None
        self._sensor_fault: SensorFault | None = None
        self._first: float | None = None
        """Begin of the first batch that was added."""
        self._sensor_reported = False
        """Whether a note about the sensor was added."""
        self._last_diagnosis_at = clock()
        self.history_loaded = False
        """Whether :meth:`load_history` was called."""

    def load_history(self, stored: Iterable[Event]) -> None:
        """Put stored events, oldest first, before those that were added meanwhile; only the first call counts."""
        with self._lock:
            if self.history_loaded:
                return
            self.history_loaded = True
            first = self._history[0].time if self._history else float("inf")
            older = RecentActivity(self._clock)
            older.add(event for event in stored if not isinstance(event, Diagnosis) or event.end < first)
            before = older.snapshot()
            self._history = deque([*before.history, *self._history], maxlen=KEPT_SECONDS)
            if self._state is None or (self._since == self._first and self._state == before.state):
                # The state began before the first batch that was added.
                self._state, self._since = before.state, before.since
            if not self._sensor_reported:
                self._sensor_fault = before.sensor_fault

    def add(self, events: Iterable[Event]) -> None:
        """Add new events of the machine."""
        with self._lock:
            for event in events:
                if isinstance(event, Diagnosis):
                    self._add_diagnosis(event)
                    self._last_diagnosis_at = self._clock()
                elif isinstance(event, Note) and event.topic == "sensor":
                    # Only a note about the end of a sensor fault has its begin.
                    reason = str(event.details.get("reason", event.text))
                    self._sensor_fault = None if "since" in event.details else SensorFault(reason, event.time)
                    self._sensor_reported = True

    def snapshot(self) -> ActivitySnapshot:
        """Return the activity as it is now."""
        with self._lock:
            silent = self._clock() - self._last_diagnosis_at
            return ActivitySnapshot(tuple(self._history), self._state, self._since, self._sensor_fault, silent)

    def _add_diagnosis(self, diagnosis: Diagnosis) -> None:
        self._first = diagnosis.begin if self._first is None else self._first
        state = diagnosis.state or diagnosis.verdict
        if state != self._state:
            self._state, self._since = state, diagnosis.begin
        new = ActivitySecond(diagnosis.end, fault_probability(diagnosis), diagnosis.alarm is not None)
        last = self._history[-1] if self._history else None
        if last is None or int(last.time) != int(new.time):
            self._history.append(new)
            return
        faults = [fault for fault in (last.fault, new.fault) if fault is not None]
        self._history[-1] = ActivitySecond(new.time, max(faults, default=None), last.alarm or new.alarm)
