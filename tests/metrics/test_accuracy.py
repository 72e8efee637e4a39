from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchmetrics.classification import MulticlassAccuracy, MulticlassCalibrationError

from cgsa.metrics.accuracy import (
    average_accuracy,
    cumulative_accuracy,
    realtime_accuracy,
    selected_accuracy,
    stage_accuracy,
    total_average,
)
from cgsa.metrics.calibration import expected_calibration_error


def test_average_is_the_unweighted_mean_of_stages() -> None:
    correct = np.array([True, True, True, True, False, True])
    stage = np.array([0, 0, 0, 0, 1, 1])
    assert stage_accuracy(correct, stage).tolist() == [1.0, 0.5]
    assert average_accuracy(correct, stage) == 0.75


def test_the_averages_equal_those_of_the_paper() -> None:
    """Gear wear, CGSA: stages 0.891, 0.889, 0.997 average to 0.926; the three faults to 0.918."""
    stages = [0.891, 0.889, 0.997]
    correct = np.concatenate([np.arange(1000) < round(1000 * accuracy) for accuracy in stages])
    assert round(average_accuracy(correct, np.repeat([0, 1, 2], 1000)), 3) == 0.926
    assert round(total_average([0.926, 0.931, 0.898]), 3) == 0.918


@given(correct=st.lists(st.booleans(), min_size=1, max_size=60), size=st.integers(1, 20))
def test_curves_equal_their_loops(correct: list[bool], size: int) -> None:
    array = np.array(correct)
    cumulative = [sum(correct[: n + 1]) / (n + 1) for n in range(len(correct))]
    np.testing.assert_allclose(cumulative_accuracy(array), cumulative)
    batches = [correct[n : n + size] for n in range(0, len(correct), size)]
    np.testing.assert_allclose(realtime_accuracy(array, size), [sum(batch) / len(batch) for batch in batches])


def test_the_accuracy_of_no_window_is_nan() -> None:
    correct = np.array([True, False, True])
    assert selected_accuracy(correct, np.array([True, True, False])) == 0.5
    assert math.isnan(selected_accuracy(correct, np.zeros(3, dtype=bool)))


@pytest.mark.parametrize("seed", range(5))
def test_accuracy_and_ece_agree_with_torchmetrics(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    probabilities = torch.softmax(3 * torch.randn(2000, 4, generator=generator), dim=1)
    labels = torch.randint(0, 4, (2000,), generator=generator)
    confidence, prediction = probabilities.max(dim=1)
    correct = (prediction == labels).numpy()
    accuracy = MulticlassAccuracy(num_classes=4, average="micro")(probabilities, labels)
    assert average_accuracy(correct, np.zeros(2000, dtype=np.int64)) == pytest.approx(float(accuracy))
    ece = MulticlassCalibrationError(num_classes=4, n_bins=10, norm="l1")(probabilities, labels)
    assert expected_calibration_error(confidence.double().numpy(), correct) == pytest.approx(float(ece), abs=1e-5)


def literal_ece(confidence: list[float], correct: list[bool], bins: int) -> float:
    total = 0.0
    for m in range(bins):
        inside = [n for n, c in enumerate(confidence) if m / bins < c <= (m + 1) / bins or (m == 0 and c == 0)]
        if inside:
            accuracy = sum(correct[n] for n in inside) / len(inside)
            mean = sum(confidence[n] for n in inside) / len(inside)
            total += len(inside) / len(confidence) * abs(accuracy - mean)
    return total


@given(st.lists(st.tuples(st.floats(0, 1, width=16), st.booleans()), min_size=1, max_size=40))
def test_ece_equals_its_sum(pairs: list[tuple[float, bool]]) -> None:
    confidence, correct = [p[0] for p in pairs], [p[1] for p in pairs]
    ours = expected_calibration_error(np.array(confidence), np.array(correct), bins=8)
    assert ours == pytest.approx(literal_ece(confidence, correct, 8), abs=1e-12)
