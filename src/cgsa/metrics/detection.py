"""How soon a fault is found, and how often one is told of that is not there.

``state`` is what was decided for each window, ``label`` what was true; class 0
is healthy. An alarm that begins before the onset is a false alarm, even if it
lasts into the fault; the delay still counts from the onset, and is nothing
where the onset finds the alarm standing.
"""

from __future__ import annotations

import numpy as np

from cgsa.metrics.accuracy import BoolArray, IntArray

SECONDS_PER_DAY = 86_400.0


def detection_delay(state: IntArray, label: IntArray, seconds_per_window: float) -> float | None:
    """Return the seconds from the first faulty window to the first that is called faulty.

    None where there is no fault, or none is told of while it is there.
    ``seconds_per_window`` is the step from one window to the next.
    """
    return _delay((state != 0) & (label != 0), label, seconds_per_window)


def named_delay(state: IntArray, label: IntArray, seconds_per_window: float) -> float | None:
    """Return the seconds from the first faulty window to the first that is given the right fault."""
    return _delay((state == label) & (label != 0), label, seconds_per_window)


def false_alarms(state: IntArray, label: IntArray) -> int:
    """Return how many separate runs of windows called faulty begin while the machine is healthy.

    A run goes on while the name of the fault changes.
    """
    alarming = state != 0
    begins = np.diff(alarming.astype(np.int8), prepend=np.int8(0)) == 1
    return int((begins & (label == 0)).sum())


def false_alarms_per_day(count: int, healthy_seconds: float) -> float:
    """Return the rate of false alarms over the time that the machine was healthy; NaN where it never was."""
    return count * SECONDS_PER_DAY / healthy_seconds if healthy_seconds > 0 else float("nan")


def _delay(found: BoolArray, label: IntArray, seconds_per_window: float) -> float | None:
    """Return the seconds from the onset to the first window of ``found``, which holds faulty ones alone."""
    if not found.any():
        return None
    return float((found.argmax() - (label != 0).argmax()) * seconds_per_window)
