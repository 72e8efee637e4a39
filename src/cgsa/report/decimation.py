"""Reducing a signal to as many points as a chart can show, without losing peaks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cgsa.metrics.accuracy import IntArray


def min_max_indices(values: npt.NDArray[np.floating], points: int) -> IntArray:
    """Return the indices of at most ``points`` samples that include the minimum and maximum of every interval.

    >>> min_max_indices(np.array([0.0, 5.0, 1.0, 1.0, -3.0, 2.0, 0.0, 0.0]), 4).tolist()
    [0, 1, 4, 5]
    """
    if len(values) <= points:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), points // 2 + 1).astype(np.intp)
    kept = [
        begin + extreme
        for begin, interval in zip(edges, np.split(values, edges[1:-1]), strict=False)
        for extreme in sorted({int(interval.argmin()), int(interval.argmax())})
    ]
    return np.array(kept, dtype=np.int64)
