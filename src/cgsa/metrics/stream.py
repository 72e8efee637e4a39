"""The trace of a finished stream, window by window, and its metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cgsa.metrics.accuracy import BoolArray, DoubleArray, IntArray, average_accuracy, selected_accuracy, stage_accuracy
from cgsa.metrics.calibration import expected_calibration_error
from cgsa.metrics.detection import detection_delay, false_alarms, named_delay


@dataclass(frozen=True, eq=False)
class StreamTrace:
    """Output of a method for every window of a stream, with the true labels."""

    label: IntArray
    stage: IntArray
    probabilities: npt.NDArray[np.float32]
    """(windows, classes)"""
    accepted: BoolArray | None
    """Which windows were used for adaptation; None if the method never adapts."""
    evidence: dict[str, npt.NDArray[Any]]
    batch_size: int
    conditions: DoubleArray | None = None
    """Measured operating conditions of each window, (windows, conditions), if known; no method ever sees them."""
    unjoined: npt.NDArray[np.float32] | None = None
    """Class probabilities that decisions join over time, (windows, classes), if they are not ``probabilities``."""

    @property
    def prediction(self) -> IntArray:
        """The most probable class of each window."""
        return np.asarray(self.probabilities.argmax(axis=1), dtype=np.int64)

    @property
    def confidence(self) -> DoubleArray:
        """The probability of the most probable class."""
        return np.asarray(self.probabilities.max(axis=1), dtype=np.float64)

    @property
    def correct(self) -> BoolArray:
        """Which windows were diagnosed correctly."""
        return np.asarray(self.prediction == self.label)


@dataclass(frozen=True)
class StreamScore:
    """The paper's metrics of one stream."""

    windows: int
    batches: int
    stage_accuracy: tuple[float, ...]
    average_accuracy: float
    """Unweighted mean of the stages."""
    stage_ece: tuple[float, ...]
    ece: float
    """Pooled over the whole stream, as in the paper's averages."""
    acceptance_rate: float | None
    """Share of windows used for adaptation; None if the method never adapts."""
    accepted_label_accuracy: float | None
    """Accuracy of the pseudo-labels of accepted windows."""
    rejected_label_accuracy: float | None


@dataclass(frozen=True)
class DecisionScore:
    """Metrics of the decisions over a stream."""

    stage_verdict: tuple[float, ...]
    """Accuracy of the decided state by stage."""
    verdict: float
    """Their unweighted mean."""
    stage_alarm: tuple[float, ...]
    """Accuracy of the alarm's state, healthy if no alarm is active, by stage."""
    alarm: float
    delay: float | None
    """Seconds from the onset to the alarm; None if it was never raised."""
    named_delay: float | None
    """Seconds from the onset to an alarm that names the fault."""
    false_alarms: int
    """Number of alarms raised while the machine was healthy."""
    healthy_seconds: float
    unknown: float
    """Share of windows whose decided state is unknown."""
    stage_estimate: tuple[float, ...]
    """Accuracy by stage, as estimated without labels."""
    estimate: float


def score_decisions(
    trace: StreamTrace,
    state: IntArray,
    alarm_state: IntArray,
    correct_probability: DoubleArray,
    *,
    classes: int,
    seconds_per_window: float,
) -> DecisionScore:
    """Return the metrics of the decisions, window by window.

    ``state`` is the decided state, ``alarm_state`` the one that the alarm reports; any state beyond the known
    ``classes`` is unknown. ``correct_probability`` is the probability that the method's prediction is correct, as
    estimated without labels.
    """
    estimate = [float(correct_probability[trace.stage == number].mean()) for number in np.unique(trace.stage)]
    by_state = stage_accuracy(np.asarray(state == trace.label), trace.stage)
    by_alarm = stage_accuracy(np.asarray(alarm_state == trace.label), trace.stage)
    return DecisionScore(
        stage_verdict=tuple(by_state.tolist()),
        verdict=float(by_state.mean()),
        stage_alarm=tuple(by_alarm.tolist()),
        alarm=float(by_alarm.mean()),
        delay=detection_delay(alarm_state, trace.label, seconds_per_window),
        named_delay=named_delay(alarm_state, trace.label, seconds_per_window),
        false_alarms=false_alarms(alarm_state, trace.label),
        healthy_seconds=float((trace.label == 0).sum() * seconds_per_window),
        unknown=float((state >= classes).mean()),
        stage_estimate=tuple(estimate),
        estimate=float(np.mean(estimate)),
    )


def score(trace: StreamTrace) -> StreamScore:
    """Return the metrics of a finished stream."""
    correct, confidence = trace.correct, trace.confidence
    stages = [trace.stage == number for number in np.unique(trace.stage)]
    rate = accepted_accuracy = rejected_accuracy = None
    if trace.accepted is not None:
        rate = float(trace.accepted.mean())
        if "pseudo_label" in trace.evidence:
            label_correct = np.asarray(trace.evidence["pseudo_label"] == trace.label)
            accepted_accuracy = _none_if_nan(selected_accuracy(label_correct, trace.accepted))
            rejected_accuracy = _none_if_nan(selected_accuracy(label_correct, ~trace.accepted))
    return StreamScore(
        windows=len(correct),
        batches=-(-len(correct) // trace.batch_size),
        stage_accuracy=tuple(stage_accuracy(correct, trace.stage).tolist()),
        average_accuracy=average_accuracy(correct, trace.stage),
        stage_ece=tuple(expected_calibration_error(confidence[mask], correct[mask]) for mask in stages),
        ece=expected_calibration_error(confidence, correct),
        acceptance_rate=rate,
        accepted_label_accuracy=accepted_accuracy,
        rejected_label_accuracy=rejected_accuracy,
    )


def _none_if_nan(value: float) -> float | None:
    """Return None for NaN, which JSON does not have."""
    return None if np.isnan(value) else value
