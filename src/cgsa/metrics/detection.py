"""Detection delay and false alarms.

``state`` is the decided state of each window, ``label`` the true one; class 0 is healthy. An alarm that begins before
the onset is a false alarm, even if it lasts into the fault; the delay still counts from the onset, and is zero if the
alarm is active at the onset.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cgsa.metrics.accuracy import BoolArray, IntArray

SECONDS_PER_DAY = 86_400.0


def detection_delay(state: IntArray, label: IntArray, seconds_per_window: float) -> float | None:
    """Return the seconds from the first faulty window to the first one that is diagnosed as faulty.

    None if there is no fault, or if it is never detected. ``seconds_per_window`` is the step from one window to the
    next.
    """
    return _delay((state != 0) & (label != 0), label, seconds_per_window)


def named_delay(state: IntArray, label: IntArray, seconds_per_window: float) -> float | None:
    """Return the seconds from the first faulty window to the first one that is diagnosed with the correct fault."""
    return _delay((state == label) & (label != 0), label, seconds_per_window)


def false_alarms(state: IntArray, label: IntArray) -> int:
    """Return the number of separate runs of windows diagnosed as faulty that begin while the machine is healthy.

    A change of the diagnosed fault does not end a run.
    """
    alarming = state != 0
    begins = np.diff(alarming.astype(np.int8), prepend=np.int8(0)) == 1
    return int((begins & (label == 0)).sum())


def false_alarms_per_day(count: int, healthy_seconds: float) -> float:
    """Return the rate of false alarms over the time that the machine was healthy; NaN if it never was."""
    return count * SECONDS_PER_DAY / healthy_seconds if healthy_seconds > 0 else float("nan")


def _delay(found: BoolArray, label: IntArray, seconds_per_window: float) -> float | None:
    """Return the seconds from the onset to the first window in ``found``, a mask of faulty windows only."""
    if not found.any():
        return None
    return float((found.argmax() - (label != 0).argmax()) * seconds_per_window)


def area_under_roc(healthy: npt.ArrayLike, faulty: npt.ArrayLike) -> float:
    """Return the probability that a faulty window scores higher than a healthy one; ties count half.

    >>> area_under_roc([1, 2, 3], [2, 4])
    0.75
    """
    low, high = np.sort(np.asarray(healthy, dtype=np.float64)), np.asarray(faulty, dtype=np.float64)
    below = np.searchsorted(low, high, side="left") + np.searchsorted(low, high, side="right")
    return float(below.mean() / (2 * len(low)))
