"""The diagnoses of a period, summed over equal intervals of time."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from cgsa.live.store import StoredDiagnosis
from cgsa.metrics.accuracy import DoubleArray

INTERVALS = 600
"""More intervals would be narrower than a line."""
LONGEST_GAP = 60.0
"""Seconds without data after which the same state begins a new span."""


class PeriodTimeline:
    """A period in constant memory: its batches are added one by one and only sums are kept.

    ``begin`` and ``end`` are seconds since 1970.
    """

    def __init__(self, begin: float, end: float) -> None:
        self.begin, self.end = begin, end
        self.batches = 0
        self.seconds: dict[str, float] = {}
        """Seconds of signal by state."""
        self.spans: list[tuple[float, float, str]] = []
        """Begin, end and state of consecutive batches with the same state."""
        self._sums: dict[str, DoubleArray] = defaultdict(lambda: np.zeros(INTERVALS))
        self._healthy: str | None = None

    def add(self, stored: StoredDiagnosis) -> None:
        """Add a batch; batches arrive in order of time."""
        diagnosis = stored.diagnosis
        if self._healthy is None and diagnosis.probabilities:
            self._healthy = next(iter(diagnosis.probabilities))
        middle = (diagnosis.begin + diagnosis.end) / 2
        place = int((middle - self.begin) / (self.end - self.begin) * INTERVALS)
        for name, value in self._summands(stored).items():
            self._sums[name][min(max(place, 0), INTERVALS - 1)] += value
        state = diagnosis.state or diagnosis.verdict
        self.batches += 1
        self.seconds[state] = self.seconds.get(state, 0.0) + diagnosis.end - diagnosis.begin
        if self.spans and self.spans[-1][2] == state and diagnosis.begin - self.spans[-1][1] < LONGEST_GAP:
            self.spans[-1] = (self.spans[-1][0], diagnosis.end, state)
        else:
            self.spans.append((diagnosis.begin, diagnosis.end, state))

    def total(self, name: str) -> int:
        """Return the number of ``windows``, or of ``trusted``, ``flagged`` or ``accepted`` ones, in the period."""
        return int(self._sums[name].sum())

    def curve(self, part: str, whole: str) -> tuple[DoubleArray, DoubleArray]:
        """Return the middle of each interval in which ``whole`` is not zero, and the ratios of ``part`` to it."""
        known = self._sums[whole] > 0
        middle = np.linspace(self.begin, self.end, 2 * INTERVALS + 1)[1::2]
        return middle[known], self._sums[part][known] / self._sums[whole][known]

    def _summands(self, stored: StoredDiagnosis) -> dict[str, float]:
        """Return what a batch adds to the sums; means over windows count once per window."""
        diagnosis, trust = stored.diagnosis, stored.diagnosis.trust
        trusted = diagnosis.windows - stored.flagged
        found = {
            "windows": diagnosis.windows,
            "trusted": trusted,
            "flagged": stored.flagged,
            "accepted": diagnosis.accepted or 0,
            "healthy": trusted * diagnosis.probabilities.get(self._healthy or "", 0.0),
        }
        if stored.response is not None:
            found |= {"response": trusted * stored.response, "responded": trusted}
        if trust is not None and trust.accuracy is not None:
            covered = 1.0 if trust.coverage is None else trust.coverage
            found |= {"chance": trusted * trust.accuracy, "covered": trusted * covered, "estimated": trusted}
        return found
