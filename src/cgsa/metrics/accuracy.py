"""Accuracy over a stream, averaged exactly as the paper averages it.

*Stage* accuracy is the share of correct windows in a stage. *Average* accuracy
is the unweighted mean over the stages, whatever their lengths. *Total average*
is the mean of the averages of all faults.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
DoubleArray = npt.NDArray[np.float64]


def stage_accuracy(correct: BoolArray, stage: IntArray) -> DoubleArray:
    """Return the accuracy of each stage, in order."""
    return np.array([correct[stage == number].mean() for number in np.unique(stage)])


def average_accuracy(correct: BoolArray, stage: IntArray) -> float:
    """Return the unweighted mean of the stage accuracies."""
    return float(stage_accuracy(correct, stage).mean())


def total_average(averages: Sequence[float]) -> float:
    """Return the mean of the averages of all faults."""
    return float(np.mean(averages))


def cumulative_accuracy(correct: BoolArray) -> DoubleArray:
    """Return for each window the accuracy over the stream up to and including it."""
    return np.asarray(np.cumsum(correct) / np.arange(1, len(correct) + 1))


def realtime_accuracy(correct: BoolArray, batch_size: int) -> DoubleArray:
    """Return the accuracy within each batch; the last one may be shorter."""
    begins = np.arange(0, len(correct), batch_size)
    sizes = np.diff([*begins, len(correct)])
    return np.asarray(np.add.reduceat(correct.astype(np.int64), begins) / sizes)


def selected_accuracy(correct: BoolArray, selected: BoolArray) -> float:
    """Return the accuracy on the selected windows; NaN if none is selected."""
    return float(correct[selected].mean()) if selected.any() else float("nan")
