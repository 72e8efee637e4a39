"""The compact summary of a stream run that figures are drawn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cgsa.metrics.accuracy import BoolArray, DoubleArray, IntArray
from cgsa.metrics.stream import StreamTrace

INTERVAL_BORDERS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3)
"""Lower borders of the residual-deviation intervals, including the paper's threshold 0.05; the last one is open."""
BEFORE, AFTER = 128, 384
"""Windows kept before and after a transition; the paper's queue has 50."""


@dataclass(frozen=True)
class BatchSeries:
    """One value per batch."""

    stage: tuple[int, ...]
    """Stage of the first window."""
    windows: tuple[int, ...]
    right: tuple[int, ...]
    """Windows diagnosed correctly."""
    confidence: tuple[float, ...]
    """Mean confidence."""
    accepted: tuple[int, ...] | None = None
    """Windows used for adaptation; None if the method never adapts."""


@dataclass(frozen=True)
class DeviationIntervals:
    """Pseudo-labels by residual deviation, over :data:`INTERVAL_BORDERS` unless other intervals are named."""

    windows: tuple[int, ...]
    right: tuple[int, ...]
    """Windows whose pseudo-label is correct."""


@dataclass(frozen=True)
class Transition:
    """Values per window around a change, while the queue still contains responses from before it."""

    name: str
    """Such as ``C1 to C2`` or ``onset``."""
    begin: int
    """First window, counted from the change; negative before it."""
    accepted: tuple[int, ...]
    deviation: tuple[float | None, ...]
    """None while the queue fills."""
    right: tuple[int, ...]
    """1 if the pseudo-label is correct, else 0."""


@dataclass(frozen=True)
class StreamDetails:
    """The data of one stream run that figures need."""

    batches: BatchSeries
    begins: tuple[int, ...]
    """First window of each stage."""
    onset: int | None
    """First faulty window; None if the stream stays healthy."""
    intervals: DeviationIntervals | None = None
    fifths: DeviationIntervals | None = None
    """The same over five intervals with equally many windows each, from the smallest deviations to the largest."""
    transitions: tuple[Transition, ...] = ()


def stream_details(trace: StreamTrace, stages: Sequence[str]) -> StreamDetails:
    """Summarise a stream; intervals and transitions need a method that reports deviations and pseudo-labels."""
    begins = np.arange(0, len(trace.label), trace.batch_size)
    sizes = np.diff([*begins, len(trace.label)])
    batches = BatchSeries(
        stage=tuple(trace.stage[begins].tolist()),
        windows=tuple(sizes.tolist()),
        right=_sums(trace.correct, begins),
        confidence=tuple(round(float(mean), 5) for mean in np.add.reduceat(trace.confidence, begins) / sizes),
        accepted=None if trace.accepted is None else _sums(trace.accepted, begins),
    )
    stage_begins = np.searchsorted(trace.stage, np.arange(len(stages))).tolist()
    faulty = np.flatnonzero(trace.label)
    summary = StreamDetails(batches, tuple(stage_begins), int(faulty[0]) if len(faulty) else None)
    if trace.accepted is None or not {"deviation", "pseudo_label"} <= trace.evidence.keys():
        return summary
    right = np.asarray(trace.evidence["pseudo_label"] == trace.label)
    deviation = np.asarray(trace.evidence["deviation"], dtype=np.float64)
    changes = {f"{stages[place - 1]} to {stages[place]}": summary.begins[place] for place in range(1, len(stages))}
    if summary.onset is not None and summary.onset not in summary.begins:
        changes["onset"] = summary.onset
    transitions = _transitions(trace.accepted, deviation, right, changes)
    fifths = _fifths(deviation, right)
    return replace(summary, intervals=_intervals(deviation, right), fifths=fifths, transitions=transitions)


def _sums(values: BoolArray, begins: IntArray) -> tuple[int, ...]:
    """Return the number of true values per batch."""
    return tuple(np.add.reduceat(values.astype(np.int64), begins).tolist())


def _intervals(deviation: DoubleArray, right: BoolArray) -> DeviationIntervals:
    known = ~np.isnan(deviation)
    place = np.searchsorted(INTERVAL_BORDERS, deviation[known], side="right") - 1
    return _counts(place, right[known], len(INTERVAL_BORDERS))


def _fifths(deviation: DoubleArray, right: BoolArray) -> DeviationIntervals | None:
    """Return None if the queue never was full. Equal deviations share an interval, so that some may be empty."""
    known = ~np.isnan(deviation)
    if not known.any():
        return None
    borders = np.quantile(deviation[known], [0.2, 0.4, 0.6, 0.8])
    return _counts(np.searchsorted(borders, deviation[known], side="left"), right[known], 5)


def _counts(place: IntArray, right: BoolArray, count: int) -> DeviationIntervals:
    return DeviationIntervals(
        tuple(np.bincount(place, minlength=count).tolist()),
        tuple(np.bincount(place[right], minlength=count).tolist()),
    )


def _transitions(
    accepted: BoolArray, deviation: DoubleArray, right: BoolArray, changes: Mapping[str, int]
) -> tuple[Transition, ...]:
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
