from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from cgsa.ledger.columns import Column, Columns, LabelColumn
from cgsa.nn.bundle import Calibration
from cgsa.service.dashboard.evidence import MAX_POINTS, MAX_ROWS, Evidence, ledger_evidence
from tests.machines import CONDITION, SPEED, manifest


def ledger(count: int, **more: Column) -> Columns:
    rng = np.random.default_rng(0)
    return {
        "window": np.arange(count),
        "time": 100.0 + np.arange(count) / 10,
        "verdict": LabelColumn(rng.integers(0, 2, count).astype(np.int32), ("health", "wear")),
        "confidence": rng.uniform(size=count).astype(np.float32),
        "reason": LabelColumn(rng.integers(0, 3, count).astype(np.int32), ("learnt", "not confident", "flat line")),
        **more,
    }


def test_counts_reasons_of_all_windows_and_shows_the_newest() -> None:
    columns = ledger(1000)
    found = ledger_evidence(columns, manifest())
    reason = columns["reason"]
    assert isinstance(reason, LabelColumn)
    assert dict(found.reasons) == Counter(reason.labels[code] for code in reason.codes)
    assert [count for _, count in found.reasons] == sorted((count for _, count in found.reasons), reverse=True)
    assert [row.window for row in found.rows] == list(range(999, 999 - MAX_ROWS, -1))
    assert found.windows == 1000
    assert found.seconds == pytest.approx(99.9)
    assert len(found.time) <= MAX_POINTS
    assert found.accepted is None
    assert found.rows[0].learnt is None
    assert found.rows[0].value is None


def test_a_response_has_its_queue_mean_and_its_training_range() -> None:
    rng = np.random.default_rng(1)
    response, mean = (rng.standard_normal(60).astype(np.float32) for _ in range(2))
    accepted = rng.uniform(size=60) < 0.5
    trained = replace(manifest(), usual_responses=((-1.0, 2.0),))
    found = ledger_evidence(ledger(60, response=response, queue_mean=mean, accepted=accepted), trained)
    (trace,) = found.traces
    assert trace.name == "residual response to torque"
    assert trace.training_range == (-1.0, 2.0)
    assert trace.mean is not None
    assert found.accepted is not None
    np.testing.assert_allclose(trace.values, response)
    np.testing.assert_allclose(trace.mean, mean)
    np.testing.assert_array_equal(found.accepted, accepted)
    assert found.rows[0].value == pytest.approx(float(response[-1]))
    assert found.rows[0].learnt == bool(accepted[-1])


def test_each_condition_has_a_trace() -> None:
    columns = ledger(8, response_torque=np.zeros(8), response_speed=np.ones(8))
    trained = replace(manifest(conditions=(CONDITION, SPEED)), usual_responses=((0.0, 1.0), (2.0, 3.0)))
    found = ledger_evidence(columns, trained)
    assert [(one.name, one.training_range) for one in found.traces] == [
        ("residual response to torque", (0.0, 1.0)),
        ("residual response to speed", (2.0, 3.0)),
    ]


def test_a_distance_is_compared_with_the_calibration() -> None:
    covered = np.array([1.0, 0.0, np.nan, 1.0], dtype=np.float32)
    columns = ledger(4, distance=np.array([1.0, 9.0, np.nan, 2.0]), covered=covered)
    found = ledger_evidence(columns, replace(manifest(), calibration=Calibration(3, 0.9, 1.0, 4.0)))
    assert found.traces[0].training_range == (None, 4.0)
    assert found.covered == pytest.approx(2 / 3)
    assert [row.value for row in found.rows] == [2.0, None, 9.0, 1.0]


def test_without_windows_there_is_no_evidence() -> None:
    found = ledger_evidence({}, manifest())
    assert (found.windows, found.rows, found.traces, found.reasons) == (0, (), (), ())
    assert isinstance(found, Evidence)
