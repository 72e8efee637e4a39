"""The streams on which a model is evaluated: every healthy recording alone, and a healthy machine that then fails."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from cgsa.data.dataset_selection import SelectedRecording


@dataclass(frozen=True)
class EvaluationStream:
    """Recordings that a model gets one after the other; the last one is judged."""

    judged: SelectedRecording
    before: SelectedRecording | None = None
    """The healthy machine before its fault; None if the judged recording is healthy itself, or if there is none."""

    @property
    def parts(self) -> tuple[SelectedRecording, ...]:
        """The recordings in their order."""
        return (self.judged,) if self.before is None else (self.before, self.judged)

    @property
    def at_other_condition(self) -> bool:
        """Whether the healthy machine was recorded at another condition than the fault."""
        return self.before is not None and self.before.point != self.judged.point


def evaluation_streams(selected: Sequence[SelectedRecording], healthy: str) -> list[EvaluationStream]:
    """Return one stream per recording, the healthy ones first.

    Before a fault comes the healthy recording that is nearest to it: of the same condition if there is one, and of the
    same specimen if there is one.
    """
    well = [one for one in selected if one.entry.label == healthy]
    failed = [one for one in selected if one.entry.label != healthy]
    before = [min(well, key=partial(_distance, fault), default=None) for fault in failed]
    return [*map(EvaluationStream, well), *map(EvaluationStream, failed, before)]


def _distance(fault: SelectedRecording, one: SelectedRecording) -> tuple[bool, float, bool, bool]:
    """Return a key by which the nearest healthy recording sorts first."""
    levels, others = one.entry.levels, fault.entry.levels
    shared = levels.keys() & others.keys()
    # In relation to the level of the fault, so that quantities of different units count alike.
    apart = math.hypot(*((levels[name] - others[name]) / (abs(others[name]) or 1.0) for name in shared))
    return one.point != fault.point, apart, one.specimen != fault.specimen, one.run != fault.run
