"""Accuracy, stages and fault onset along a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cgsa.bench.records import RunRecord, grouped
from cgsa.metrics.accuracy import DoubleArray


@dataclass(frozen=True, eq=False)
class AccuracyCurve:
    """Accuracy of an entry along a stream: one point per batch, mean over the trials."""

    seen: tuple[int, ...]
    """Windows seen by the end of each batch."""
    cumulative: DoubleArray
    """Share of correct windows so far."""
    realtime: DoubleArray
    """Share of correct windows in the batch."""


@dataclass(frozen=True)
class StreamTimeline:
    """Stages and fault onset of a stream, in windows from its beginning."""

    begins: Mapping[str, int]
    """First window of each stage."""
    end: int
    onset: int | None
    """First faulty window; None if the stream stays healthy."""


def mean_curves(records: Sequence[RunRecord]) -> dict[str, AccuracyCurve]:
    """Return one curve per entry on a stream."""
    return {entry: _mean_curve(mine) for entry, mine in grouped(records, lambda record: record.entry).items()}


def stream_timeline(records: Sequence[RunRecord]) -> StreamTimeline:
    """Return the timeline of one stream."""
    details = records[0].details
    begins = dict(zip(records[0].stages, details.begins, strict=True))
    return StreamTimeline(begins, sum(details.batches.windows), details.onset)


def _mean_curve(records: Sequence[RunRecord]) -> AccuracyCurve:
    windows = np.array(records[0].details.batches.windows)
    right = np.array([record.details.batches.right for record in records])
    seen = windows.cumsum()
    return AccuracyCurve(
        tuple(seen.tolist()),
        np.asarray((right.cumsum(axis=1) / seen).mean(axis=0)),
        np.asarray((right / windows).mean(axis=0)),
    )
