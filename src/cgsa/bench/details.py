"""What is kept of a meeting beside its rows: all that figures need, and little enough to keep for every meeting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cgsa.metrics.accuracy import BoolArray, DoubleArray
from cgsa.metrics.stream import StreamTrace

INTERVALS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3)
"""Lower borders of the residual-deviation intervals; the last one is open. The paper's threshold, 0.05, is one."""
BEFORE, AFTER = 128, 384
"""Windows kept before and after a transition; the paper's queue holds 50."""


@dataclass(frozen=True)
class Batches:
    """One number a batch."""

    stage: tuple[int, ...]
    """Stage of its first window."""
    windows: tuple[int, ...]
    right: tuple[int, ...]
    """Windows diagnosed right."""
    confidence: tuple[float, ...]
    """Mean confidence."""
    accepted: tuple[int, ...] | None = None
    """Windows learnt from; none where the method never learns."""


@dataclass(frozen=True)
class Intervals:
    """Pseudo-labels by residual deviation, over :data:`INTERVALS`."""

    windows: tuple[int, ...]
    right: tuple[int, ...]
    """Windows whose pseudo-label is right."""


@dataclass(frozen=True)
class Transition:
    """Window by window around a change, where the queue still tells of what was before it."""

    name: str
    """Such as ``C1 to C2`` or ``onset``."""
    begin: int
    """First window told of, counted from the change; negative before it."""
    accepted: tuple[int, ...]
    deviation: tuple[float | None, ...]
    """None while the queue fills."""
    right: tuple[int, ...]
    """Whether the pseudo-label is right."""


@dataclass(frozen=True)
class Details:
    """What is kept of one meeting."""

    batches: Batches
    begins: tuple[int, ...]
    """First window of each stage."""
    onset: int | None
    """First faulty window; none where the stream stays healthy."""
    intervals: Intervals | None = None
    transitions: tuple[Transition, ...] = ()


def details(trace: StreamTrace, stages: Sequence[str]) -> Details:
    """Condense a stream; intervals and transitions only of methods that tell deviations and pseudo-labels."""
    begins = np.arange(0, len(trace.label), trace.batch_size)
    sizes = np.diff([*begins, len(trace.label)])
    batches = Batches(
        stage=tuple(trace.stage[begins].tolist()),
        windows=tuple(sizes.tolist()),
        right=tuple(np.add.reduceat(trace.correct.astype(np.int64), begins).tolist()),
        confidence=_rounded(np.add.reduceat(trace.confidence, begins) / sizes),
        accepted=None
        if trace.accepted is None
        else tuple(np.add.reduceat(trace.accepted.astype(np.int64), begins).tolist()),
    )
    stage_begins = np.searchsorted(trace.stage, np.arange(len(stages))).tolist()
    faulty = np.flatnonzero(trace.label)
    kept = Details(batches, tuple(stage_begins), int(faulty[0]) if len(faulty) else None)
    if trace.accepted is None or not {"deviation", "pseudo_label"} <= trace.evidence.keys():
        return kept
    right = np.asarray(trace.evidence["pseudo_label"] == trace.label)
    changes = {f"{stages[place - 1]} to {stages[place]}": kept.begins[place] for place in range(1, len(stages))}
    if kept.onset is not None and kept.onset not in kept.begins:
        changes["onset"] = kept.onset
    return replace(kept, intervals=_intervals(trace, right), transitions=_transitions(trace, right, changes))


def _intervals(trace: StreamTrace, right: BoolArray) -> Intervals:
    deviation = np.asarray(trace.evidence["deviation"], dtype=np.float64)
    known = ~np.isnan(deviation)
    place = np.searchsorted(INTERVALS, deviation[known], side="right") - 1
    count = len(INTERVALS)
    return Intervals(
        tuple(np.bincount(place, minlength=count).tolist()),
        tuple(np.bincount(place[right[known]], minlength=count).tolist()),
    )


def _transitions(trace: StreamTrace, right: BoolArray, changes: Mapping[str, int]) -> tuple[Transition, ...]:
    deviation = np.asarray(trace.evidence["deviation"], dtype=np.float64)
    accepted = np.asarray(trace.accepted)
    found = []
    for name, at in sorted(changes.items(), key=lambda item: item[1]):
        begin, end = max(0, at - BEFORE), min(len(right), at + AFTER)
        found.append(
            Transition(
                name,
                begin - at,
                tuple(accepted[begin:end].astype(int).tolist()),
                tuple(None if np.isnan(value) else round(float(value), 5) for value in deviation[begin:end]),
                tuple(right[begin:end].astype(int).tolist()),
            )
        )
    return tuple(found)


def _rounded(values: DoubleArray) -> tuple[float, ...]:
    return tuple(round(float(value), 5) for value in values)
