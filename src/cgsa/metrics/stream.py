"""All that is known of a finished stream, window by window, and the figures drawn from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cgsa.metrics.accuracy import (
    BoolArray,
    DoubleArray,
    IntArray,
    average_accuracy,
    selected_accuracy,
    stage_accuracy,
)
from cgsa.metrics.calibration import expected_calibration_error
from cgsa.metrics.detection import detection_delay, false_alarms, named_delay


@dataclass(frozen=True, eq=False)
class StreamTrace:
    """What a method said of every window, with the truth beside it."""

    label: IntArray
    stage: IntArray
    probabilities: npt.NDArray[np.float32]
    """(windows, classes)"""
    accepted: BoolArray | None
    """Which windows were learnt from; none where the method never learns."""
    evidence: dict[str, npt.NDArray[Any]]
    batch_size: int
    conditions: DoubleArray | None = None
    """Measured operating conditions of each window, (windows, conditions), where known; no method ever sees them."""

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
        """Which windows were diagnosed right."""
        return np.asarray(self.prediction == self.label)


@dataclass(frozen=True)
class StreamScore:
    """The paper's figures of one stream."""

    windows: int
    batches: int
    stage_accuracy: tuple[float, ...]
    average_accuracy: float
    """Unweighted mean of the stages."""
    stage_ece: tuple[float, ...]
    ece: float
    """Pooled over the whole stream, as the paper's averages are."""
    acceptance_rate: float | None
    """Share of windows learnt from; none where the method never learns."""
    accepted_label_accuracy: float | None
    """Accuracy of the pseudo-labels of accepted windows."""
    rejected_label_accuracy: float | None


@dataclass(frozen=True)
class DecisionScore:
    """What the decisions over a stream were worth."""

    stage_verdict: tuple[float, ...]
    """Accuracy of the verdicts by stage."""
    verdict: float
    """Their unweighted mean."""
    stage_alarm: tuple[float, ...]
    """Accuracy of what the alarm told, healthy where none stood, by stage."""
    alarm: float
    delay: float | None
    """Seconds from the onset to the alarm; none where it was never raised."""
    named_delay: float | None
    """Seconds from the onset to an alarm that names the fault."""
    false_alarms: int
    """Alarms that were raised while the machine was healthy."""
    healthy_seconds: float
    unknown: float
    """Share of windows whose verdict is that no training held their state."""
    stage_estimate: tuple[float, ...]
    """Accuracy of the windows by stage as it was estimated without labels."""
    estimate: float


def score_decisions(
    trace: StreamTrace,
    verdict: IntArray,
    alarm: IntArray,
    chance: DoubleArray,
    *,
    classes: int,
    seconds_per_window: float,
) -> DecisionScore:
    """Return the figures of what was decided, window by window.

    Parameters
    ----------
    trace
        What the method said, with the truth beside it.
    verdict, alarm
        The state of the verdict, and that of the alarm.
    chance
        How likely what the method said was right, as far as it knows itself.
    classes
        How many known states there are; any beyond is unknown.
    seconds_per_window
        From the begin of one window to that of the next.
    """
    estimate = [float(chance[trace.stage == number].mean()) for number in np.unique(trace.stage)]
    by_verdict = stage_accuracy(np.asarray(verdict == trace.label), trace.stage)
    by_alarm = stage_accuracy(np.asarray(alarm == trace.label), trace.stage)
    return DecisionScore(
        stage_verdict=tuple(by_verdict.tolist()),
        verdict=float(by_verdict.mean()),
        stage_alarm=tuple(by_alarm.tolist()),
        alarm=float(by_alarm.mean()),
        delay=detection_delay(alarm, trace.label, seconds_per_window),
        named_delay=named_delay(alarm, trace.label, seconds_per_window),
        false_alarms=false_alarms(alarm, trace.label),
        healthy_seconds=float((trace.label == 0).sum() * seconds_per_window),
        unknown=float((verdict >= classes).mean()),
        stage_estimate=tuple(estimate),
        estimate=float(np.mean(estimate)),
    )


def score(trace: StreamTrace) -> StreamScore:
    """Return the figures of a finished stream."""
    correct, confidence = trace.correct, trace.confidence
    stages = [trace.stage == number for number in np.unique(trace.stage)]
    rate = accepted_right = rejected_right = None
    if trace.accepted is not None:
        rate = float(trace.accepted.mean())
        if "pseudo_label" in trace.evidence:
            right = np.asarray(trace.evidence["pseudo_label"] == trace.label)
            accepted_right = _known(selected_accuracy(right, trace.accepted))
            rejected_right = _known(selected_accuracy(right, ~trace.accepted))
    return StreamScore(
        windows=len(correct),
        batches=-(-len(correct) // trace.batch_size),
        stage_accuracy=tuple(stage_accuracy(correct, trace.stage).tolist()),
        average_accuracy=average_accuracy(correct, trace.stage),
        stage_ece=tuple(expected_calibration_error(confidence[mask], correct[mask]) for mask in stages),
        ece=expected_calibration_error(confidence, correct),
        acceptance_rate=rate,
        accepted_label_accuracy=accepted_right,
        rejected_label_accuracy=rejected_right,
    )


def _known(value: float) -> float | None:
    """Return none for NaN, which JSON does not have."""
    return None if np.isnan(value) else value
