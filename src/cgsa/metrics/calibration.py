"""Calibration: a confidence of 0.9 should mean right nine times in ten."""

from __future__ import annotations

import numpy as np

from cgsa.metrics.accuracy import BoolArray, DoubleArray


def expected_calibration_error(confidence: DoubleArray, correct: BoolArray, bins: int = 10) -> float:
    """Return the expected calibration error, eq. (14), over ``bins`` equal bins of [0, 1].

    A bin holds its upper border, not its lower one; a confidence of zero falls
    into the first.
    """
    borders = np.linspace(0.0, 1.0, bins + 1)
    place = np.clip(np.searchsorted(borders, confidence, side="left") - 1, 0, bins - 1)
    # |B_m| / N * |acc - conf| is the gap between two sums over N: empty bins need no special case.
    right = np.bincount(place, weights=correct, minlength=bins)
    sure = np.bincount(place, weights=confidence, minlength=bins)
    return float(np.abs(right - sure).sum() / len(confidence))
