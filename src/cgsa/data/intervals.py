"""Intervals of a recording in which measured conditions hold a level, or rise from one level to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Trace: TypeAlias = npt.NDArray[np.float64]
SampleRange: TypeAlias = tuple[int, int]
"""The first sample and the one after the last."""

SMOOTHING_SECONDS = 0.1
"""Measured conditions are averaged over this time before they are compared with a level."""
HELD_SECONDS = 1.0
"""A ramp passes through a level too, but only a level lasts this long."""


def smoothed(trace: npt.NDArray[np.float32], rate: float) -> Trace:
    """Return a measured condition averaged over a short time around every sample."""
    width = max(1, min(round(SMOOTHING_SECONDS * rate), len(trace)))
    padded = np.pad(trace.astype(np.float64), (width // 2, width - 1 - width // 2), mode="edge")
    total = np.concatenate([[0.0], np.cumsum(padded)])
    return np.asarray((total[width:] - total[:-width]) / width)


def held_intervals(levels: Sequence[tuple[Trace, float, float]], rate: float) -> list[SampleRange]:
    """Return the intervals in which every trace stays near its level; each has a trace, a level and a tolerance."""
    near = np.logical_and.reduce([np.abs(trace - level) <= tolerance for trace, level, tolerance in levels])
    # All of a recording may be shorter than a level must last.
    least = min(HELD_SECONDS * rate, len(near))
    return [(begin, end) for begin, end in _runs_of(near) if end - begin >= least]


def rising_intervals(trace: Trace, low: float, high: float) -> list[SampleRange]:
    """Return each interval from the last sample at or below ``low`` to the first at or above ``high``."""
    marks = np.where(trace >= high, 1, np.where(trace <= low, -1, 0))
    places = np.flatnonzero(marks)
    rises = np.flatnonzero((marks[places[:-1]] == -1) & (marks[places[1:]] == 1))
    return [(int(places[rise]), int(places[rise + 1]) + 1) for rise in rises]


def _runs_of(mask: npt.NDArray[np.bool_]) -> list[SampleRange]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [(int(begin), int(end)) for begin, end in edges.reshape(-1, 2)]
