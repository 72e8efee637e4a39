"""Levels of channels: how strong their signals are, whatever they consist of."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cgsa.data.recording import FloatArray


def lowest_levels(signals: Iterable[FloatArray], length: int) -> tuple[float, ...]:
    """Return the lowest level of each channel over several signals, (channels, samples) each.

    The level of a signal is the median standard deviation of its windows of ``length`` samples. At least one signal
    must have that length.

    >>> square = np.tile([1.0, -1.0], 8)
    >>> lowest_levels([np.stack([square, 5 * square]), np.stack([3 * square, 4 * square])], 4)
    (1.0, 4.0)
    """
    levels = []
    for signal in signals:
        count = signal.shape[1] // length
        if not count:
            continue
        windows = signal[:, : count * length].reshape(len(signal), count, length)
        levels.append(np.median(windows.std(axis=2, dtype=np.float64), axis=1))
    return tuple(float(level) for level in np.min(levels, axis=0))
