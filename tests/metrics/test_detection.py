from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.metrics.detection import detection_delay, false_alarms, false_alarms_per_day, named_delay

Pairs = list[tuple[int, int]]


def literal_delay(pairs: Pairs, seconds: float, *, named: bool) -> float | None:
    onset = None
    for place, (state, label) in enumerate(pairs):
        if label != 0 and onset is None:
            onset = place
        if onset is not None and label != 0 and (state == label if named else state != 0):
            return (place - onset) * seconds
    return None


def literal_false_alarms(pairs: Pairs) -> int:
    count, before = 0, 0
    for state, label in pairs:
        count += before == 0 and state != 0 and label == 0
        before = state
    return count


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=40))
def test_delays_and_false_alarms_equal_their_loops(pairs: Pairs) -> None:
    state, label = np.array(pairs, dtype=np.int64).T
    assert detection_delay(state, label, 0.5) == literal_delay(pairs, 0.5, named=False)
    assert named_delay(state, label, 0.5) == literal_delay(pairs, 0.5, named=True)
    assert false_alarms(state, label) == literal_false_alarms(pairs)


def test_delays_count_from_the_onset() -> None:
    label = np.array([0, 0, 0, 2, 2, 2, 2])
    state = np.array([0, 0, 0, 0, 1, 1, 2])
    assert detection_delay(state, label, 0.25) == 0.25
    assert named_delay(state, label, 0.25) == 0.75
    assert false_alarms(state, label) == 0


def test_an_undetected_fault_has_no_delay() -> None:
    label = np.array([0, 0, 2, 2])
    assert detection_delay(np.zeros(4, dtype=np.int64), label, 1.0) is None
    assert named_delay(np.array([0, 0, 1, 1]), label, 1.0) is None
    assert detection_delay(np.array([0, 1, 1, 0]), np.zeros(4, dtype=np.int64), 1.0) is None


def test_an_alarm_active_at_the_onset_is_false_and_has_zero_delay() -> None:
    label = np.array([0, 0, 0, 1, 1, 1])
    state = np.array([0, 2, 2, 2, 0, 1])
    assert false_alarms(state, label) == 1
    assert detection_delay(state, label, 1.0) == 0.0
    assert named_delay(state, label, 1.0) == 2.0


def test_an_alarm_that_ends_before_the_onset_is_no_detection() -> None:
    label = np.array([0, 0, 0, 1, 1, 1])
    state = np.array([1, 1, 0, 0, 0, 1])
    assert false_alarms(state, label) == 1
    assert detection_delay(state, label, 1.0) == 2.0


def test_a_false_alarm_that_changes_its_fault_counts_once() -> None:
    state = np.array([1, 2, 2, 0, 1, 0, 3])
    assert false_alarms(state, np.zeros(7, dtype=np.int64)) == 3


def test_false_alarms_per_day() -> None:
    assert false_alarms_per_day(3, 43_200.0) == pytest.approx(6.0)
    assert math.isnan(false_alarms_per_day(0, 0.0))
