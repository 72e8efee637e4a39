"""The pulse of a machine: what it told lately, small enough to be kept for hundreds of machines.

A list of machines must not ask the store for each of them every second. So the
dashboard hears what the plant tells, and keeps of it what a list shows.
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
"""How far back a course reaches."""


@dataclass(frozen=True)
class ActivitySecond:
    """The worst of one second."""

    time: float
    """Of the stream."""
    fault: float | None
    """Probability of any fault; none where there were no data, or nothing like them was known."""
    alarm: bool


@dataclass(frozen=True)
class SensorFault:
    """Why samples are not believed, and since when."""

    reason: str
    since: float


@dataclass(frozen=True)
class ActivitySnapshot:
    """The pulse at one moment."""

    beats: tuple[ActivitySecond, ...] = ()
    """The oldest first."""
    state: str | None = None
    since: float | None = None
    """Since when the machine is in that state, as far as is known."""
    trouble: SensorFault | None = None
    silent: float = 0.0
    """Seconds by the clock on the wall since anything came."""


def fault_probability(diagnosis: Diagnosis) -> float | None:
    """Return how likely any fault is, by the mean over a batch; none without data, or where the model does not know.

    The healthy class stands first, as in every bundle.
    """
    if diagnosis.state == UNKNOWN:
        # So far from all training, the shares of the known classes mean nothing.
        return None
    healthy = next(iter(diagnosis.probabilities.values()), None)
    return None if healthy is None else min(1.0, max(0.0, 1.0 - healthy))


class RecentActivity:
    """Keeps the pulse of one machine; lanes feed it and pages read it, each in their own thread.

    Parameters
    ----------
    clock
        Tells the seconds for how long nothing came.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._beats: deque[ActivitySecond] = deque(maxlen=KEPT_SECONDS)
        self._state: str | None = None
        self._since: float | None = None
        self._trouble: SensorFault | None = None
        self._first: float | None = None
        """When the first batch that was heard of began."""
        self._noted = False
        """Whether anything was heard of the sensor."""
        self._heard_at = clock()
        self._recalled = False

    @property
    def recalled(self) -> bool:
        """Whether it knows what was before it began to hear."""
        return self._recalled

    def recall(self, before: Iterable[Event]) -> None:
        """Put what the store knows, the oldest first, before what was heard meanwhile."""
        with self._lock:
            if self._recalled:
                return
            self._recalled = True
            older = RecentActivity(self._clock)
            first = self._beats[0].time if self._beats else float("inf")
            older.hear(event for event in before if not isinstance(event, Diagnosis) or event.end < first)
            known = older.heard()
            self._beats = deque([*known.beats, *self._beats], maxlen=KEPT_SECONDS)
            if self._state is None or (self._since == self._first and self._state == known.state):
                # It was in that state before already.
                self._state, self._since = known.state, known.since
            if not self._noted:
                self._trouble = known.trouble

    def hear(self, events: Iterable[Event]) -> None:
        """Take in what the machine tells."""
        with self._lock:
            for event in events:
                self._take(event)
                if isinstance(event, Diagnosis):
                    self._heard_at = self._clock()

    def heard(self) -> ActivitySnapshot:
        """Return the pulse at this moment."""
        with self._lock:
            silent = self._clock() - self._heard_at
            return ActivitySnapshot(tuple(self._beats), self._state, self._since, self._trouble, silent)

    def _take(self, event: Event) -> None:
        if isinstance(event, Diagnosis):
            self._beat(event)
            self._first = event.begin if self._first is None else self._first
            told = event.state or event.verdict
            if told != self._state:
                self._state, self._since = told, event.begin
        elif isinstance(event, Note) and event.topic == "sensor":
            # A note about the end of a trouble says since when it was.
            over = "since" in event.details
            self._noted = True
            self._trouble = None if over else SensorFault(str(event.details.get("reason", event.text)), event.time)

    def _beat(self, event: Diagnosis) -> None:
        beat = ActivitySecond(event.end, fault_probability(event), event.alarm is not None)
        last = self._beats[-1] if self._beats else None
        if last is None or int(last.time) != int(beat.time):
            self._beats.append(beat)
            return
        known = [fault for fault in (last.fault, beat.fault) if fault is not None]
        self._beats[-1] = ActivitySecond(beat.time, max(known, default=None), last.alarm or beat.alarm)
