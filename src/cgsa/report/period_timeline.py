"""The diagnoses of a period, summed over equal intervals of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cgsa.live.store import StoredDiagnosis
from cgsa.metrics.accuracy import DoubleArray

INTERVALS = 600
"""More intervals would be narrower than a line."""
LONGEST_GAP = 60.0
"""Seconds without data after which the same state begins a new span."""


@dataclass
class PeriodInterval:
    """Sums over the batches of an interval."""

    windows: int = 0
    trusted: int = 0
    """Windows that the quality gate accepted."""
    flagged: int = 0
    """Windows that the quality gate rejected."""
    learnt: int = 0
    healthy: float = 0.0
    response: float = 0.0
    response_windows: int = 0
    chance: float = 0.0
    covered: float = 0.0
    estimated: int = 0
    """Windows with an estimate of the accuracy."""

    def add(self, stored: StoredDiagnosis, healthy: str) -> None:
        """Add a batch."""
        diagnosis, trusted = stored.diagnosis, stored.diagnosis.windows - stored.flagged
        self.windows += diagnosis.windows
        self.trusted += trusted
        self.flagged += stored.flagged
        self.learnt += diagnosis.accepted or 0
        self.healthy += trusted * diagnosis.probabilities.get(healthy, 0.0)
        if stored.response is not None:
            self.response += trusted * stored.response
            self.response_windows += trusted
        if diagnosis.trust is not None and diagnosis.trust.accuracy is not None:
            self.chance += trusted * diagnosis.trust.accuracy
            self.covered += trusted * (1.0 if diagnosis.trust.coverage is None else diagnosis.trust.coverage)
            self.estimated += trusted


class PeriodTimeline:
    """A period in constant memory: its batches are added one by one and only sums are kept.

    Parameters
    ----------
    begin, end
        Seconds since 1970.
    """

    def __init__(self, begin: float, end: float) -> None:
        self.begin, self.end = begin, end
        self.batches = 0
        self.seconds: dict[str, float] = {}
        """Seconds of signal by state."""
        self.totals = PeriodInterval()
        self.spans: list[tuple[float, float, str]] = []
        """Begin, end and state of consecutive batches with the same state."""
        self._intervals = [PeriodInterval() for _ in range(INTERVALS)]
        self._healthy: str | None = None

    def add(self, stored: StoredDiagnosis) -> None:
        """Add a batch; batches arrive in order of time."""
        diagnosis = stored.diagnosis
        if self._healthy is None and diagnosis.probabilities:
            self._healthy = next(iter(diagnosis.probabilities))
        middle = (diagnosis.begin + diagnosis.end) / 2
        place = int((middle - self.begin) / (self.end - self.begin) * INTERVALS)
        for interval in (self.totals, self._intervals[min(max(place, 0), INTERVALS - 1)]):
            interval.add(stored, self._healthy or "")
        state = diagnosis.state or diagnosis.verdict
        self.batches += 1
        self.seconds[state] = self.seconds.get(state, 0.0) + diagnosis.end - diagnosis.begin
        if self.spans and self.spans[-1][2] == state and diagnosis.begin - self.spans[-1][1] < LONGEST_GAP:
            self.spans[-1] = (self.spans[-1][0], diagnosis.end, state)
        else:
            self.spans.append((diagnosis.begin, diagnosis.end, state))

    def curve(self, value_of: Callable[[PeriodInterval], float | None]) -> tuple[DoubleArray, DoubleArray]:
        """Return the middle of each interval that has a value, and the values."""
        width = (self.end - self.begin) / INTERVALS
        found = [
            (self.begin + (n + 0.5) * width, value)
            for n, interval in enumerate(self._intervals)
            if interval.windows and (value := value_of(interval)) is not None
        ]
        return np.array([time for time, _ in found]), np.array([value for _, value in found])
