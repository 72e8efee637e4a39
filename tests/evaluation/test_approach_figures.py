from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.data.windows import Segment
from cgsa.evaluation.approach_figures import (
    STEP_SECONDS,
    ApproachFigures,
    StreamTruth,
    approach_figures,
    counted_from,
    shown,
)
from cgsa.evaluation.approaches import APPROACHES
from tests.machines import SCENARIO, ToyLibrary
from tests.report.demo_stories import ONSET, SECONDS, made_run, made_truth

TIME = np.arange(1, round(SECONDS / 0.1) + 1) * 0.1


def figures(state: np.ndarray, alarm: np.ndarray | None = None, since: float = 0.0) -> ApproachFigures:
    return approach_figures(made_run(APPROACHES[0], state, alarm), made_truth(), since)


def test_what_is_right_from_the_first_window_on_is_right() -> None:
    found = figures(np.where(TIME > ONSET, 1, 0))
    assert found.right
    # The first window after the onset ends one step of 0.1 s later, so two steps of the comparison.
    assert found.delay == found.named_delay == pytest.approx(0.1)
    assert (found.healthy_right, found.false_alarms, found.alarm_at_onset) == (1.0, 0, False)
    assert found.faulty_right == pytest.approx(1 - STEP_SECONDS / (SECONDS - ONSET), abs=1e-3)


def test_false_alarms_and_delays_are_told_apart() -> None:
    state = np.where(TIME > ONSET, 1, 0)
    standing = figures(state, np.where(TIME > ONSET - 1, 1, 0))
    assert (standing.false_alarms, standing.alarm_at_onset, standing.delay, standing.right) == (1, True, 0.0, False)
    ended = figures(state, np.where((TIME > 1) & (TIME < 2) | (TIME > ONSET + 2), 1, 0))
    assert (ended.false_alarms, ended.alarm_at_onset) == (1, False)
    assert ended.delay == pytest.approx(2.1)
    misnamed = figures(state, np.where(TIME > ONSET, 2, 0))
    assert misnamed.delay == pytest.approx(0.1)
    assert (misnamed.named_delay, misnamed.right) == (None, False)
    never = figures(state, np.zeros_like(state))
    assert (never.delay, never.named_delay, never.right) == (None, None, False)


def test_verdicts_must_be_right_nearly_always() -> None:
    slow = np.where(TIME > ONSET + 2, 1, 0)
    found = figures(slow, np.where(TIME > ONSET, 1, 0))
    assert found.verdicts_right < 0.9
    assert not found.right


def test_shares_are_counted_when_every_approach_has_a_verdict() -> None:
    state = np.where(TIME < 2, 2, np.where(TIME > ONSET, 1, 0))
    runs = [made_run(APPROACHES[0], state), made_run(APPROACHES[2], state, observed=3.0)]
    since = counted_from(runs)
    assert since == pytest.approx(3.1)
    assert figures(state, since=since).healthy_right == 1.0
    assert figures(state).healthy_right < 0.8
    assert math.isnan(figures(state, since=ONSET + 1).healthy_right)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=150), st.floats(0.03, 0.7))
def test_what_is_shown_is_the_last_window_that_has_ended(states: list[int], step: float) -> None:
    run = made_run(APPROACHES[0], np.array(states), step=step)
    truth = made_truth()
    expected = []
    for time in truth.time:
        ended = [state for state, end in zip(states, run.end, strict=True) if end <= time + 1e-9]
        expected.append(ended[-1] if ended else 0)
    assert shown(run, truth, run.state).tolist() == expected


def test_the_truth_follows_the_segments() -> None:
    segments = SCENARIO.stream_segments(ToyLibrary(), "wear")
    truth = StreamTruth.of(segments, ["torque"])
    seconds = sum(one.recording.samples for one in segments) / 1000
    assert truth.borders == pytest.approx((0, 2, 4, 6), abs=0.01)
    assert truth.onset == pytest.approx(3.0, abs=0.01)
    assert truth.fault == 1
    assert len(truth.time) == math.floor(seconds / STEP_SECONDS)
    assert truth.conditions["torque"][truth.time < 1.9].mean() == pytest.approx(20, abs=0.2)
    healthy = StreamTruth.of([Segment(one.recording, 0, one.stage) for one in segments], ["torque"])
    assert (healthy.onset, healthy.fault) == (None, 0)


def test_a_stream_without_a_fault_has_no_delay() -> None:
    truth = made_truth()
    healthy = replace(truth, label=np.zeros_like(truth.label))
    found = approach_figures(made_run(APPROACHES[0], np.zeros(len(TIME), np.int64)), healthy, 0.0)
    assert (found.delay, found.false_alarms, found.verdicts_right) == (None, 0, 1.0)
    assert math.isnan(found.faulty_right)
