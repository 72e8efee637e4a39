"""Calibration: at a confidence of 0.9, nine predictions in ten should be correct."""

from __future__ import annotations

import numpy as np

from cgsa.metrics.accuracy import BoolArray, DoubleArray


def expected_calibration_error(confidence: DoubleArray, correct: BoolArray, bins: int = 10) -> float:
    """Return the expected calibration error, eq. (14), over ``bins`` equal bins of [0, 1].

    A bin includes its upper border, not its lower one; a confidence of zero belongs to the first bin.
    """
    borders = np.linspace(0.0, 1.0, bins + 1)
    index = np.clip(np.searchsorted(borders, confidence, side="left") - 1, 0, bins - 1)
    # |B_m| / N * |acc - conf| is the difference of two sums over N, so empty bins need no special case.
    correct_sum = np.bincount(index, weights=correct, minlength=bins)
    confidence_sum = np.bincount(index, weights=confidence, minlength=bins)
    return float(np.abs(correct_sum - confidence_sum).sum() / len(confidence))
