"""The health score of a machine.

The health score of a minute or hour is 100 times the mean probability of the healthy class over its batches, where a
batch whose state is unknown counts 0, and batches without data or at standstill do not count.
"""

from __future__ import annotations

import math

from cgsa.decide.decision import UNKNOWN
from cgsa.events import NO_DATA, OFF, Diagnosis

DEFINITION = (
    "The health score is 100 times the mean probability of the healthy class over all batches of a minute or hour; a "
    "batch whose state is unknown counts 0, and batches without data or at standstill do not count."
)


def batch_health(diagnosis: Diagnosis) -> float | None:
    """Return what a batch contributes to the health score, from 0 to 1; None if it does not count."""
    state = diagnosis.state or diagnosis.verdict
    if state in {NO_DATA, OFF}:
        return None
    if state == UNKNOWN:
        return 0.0
    # The healthy class is the first one, as in every bundle.
    healthy = next(iter(diagnosis.probabilities.values()), math.nan)
    return min(1.0, max(0.0, healthy)) if math.isfinite(healthy) else None


class HealthMean:
    """The mean over the batches of a minute."""

    def __init__(self) -> None:
        self.batches = 0
        self._sum = 0.0

    def add(self, diagnosis: Diagnosis) -> None:
        """Add a batch, if it counts."""
        health = batch_health(diagnosis)
        if health is not None:
            self.batches += 1
            self._sum += health

    @property
    def mean(self) -> float | None:
        """From 0 to 1; None without a batch that counts."""
        return self._sum / self.batches if self.batches else None
