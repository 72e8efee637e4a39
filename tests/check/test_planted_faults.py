from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from benchmarks.check_faults import CLEAN, concerns
from benchmarks.planted_faults import PLANTED_FAULTS
from benchmarks.publish import measurement_file
from benchmarks.result_files import read_lines

from cgsa.check import CHECKS
from cgsa.check.finding import NOTE, STOPS
from cgsa.check.run import CheckResult, check_data, require_trainable
from cgsa.errors import DataError
from tests.check.clean_set import clean_set

STOPPING = {
    "NaN",
    "all-zero recording",
    "same recording under two classes",
    "training recording in the test",
    "scaled copy",  # with this seed, of another class
}


def check_spoilt(fault: str) -> tuple[CheckResult, frozenset[str]]:
    spoilt = PLANTED_FAULTS[fault].plant(clean_set(), np.random.default_rng(5))
    assert spoilt is not None
    return check_data(spoilt.recordings), spoilt.names


def test_a_clean_set_has_no_findings() -> None:
    assert check_data(clean_set()).findings == ()


@pytest.mark.parametrize("fault", PLANTED_FAULTS)
def test_a_planted_fault_is_found_where_it_is(fault: str) -> None:
    spoilt = PLANTED_FAULTS[fault].plant(clean_set(), np.random.default_rng(5))
    assert spoilt is not None
    findings = check_data(spoilt.recordings).findings
    assert any(
        one.check in PLANTED_FAULTS[fault].checks and one.severity != NOTE and concerns(one, spoilt) for one in findings
    )
    assert not [one for one in findings if not concerns(one, spoilt) and one.check not in PLANTED_FAULTS[fault].checks]


@pytest.mark.parametrize("fault", PLANTED_FAULTS)
def test_only_what_makes_a_model_worthless_stops_training(fault: str) -> None:
    spoilt = PLANTED_FAULTS[fault].plant(clean_set(), np.random.default_rng(5))
    assert spoilt is not None
    stopped = pytest.raises(DataError, match="would be worthless") if fault in STOPPING else nullcontext()
    with stopped:
        require_trainable(spoilt.recordings, "advice")


def test_at_least_fifteen_kinds_of_faults_are_found_in_every_published_set_every_time() -> None:
    published = read_lines(measurement_file("check_faults"))
    planted = {one["fault"] for one in published if one["fault"] != CLEAN}
    missed = {one["fault"] for one in published if one["fault"] != CLEAN and one["found"] < one["planted"]}
    assert planted == set(PLANTED_FAULTS)
    assert len(planted - missed) >= 15


def test_what_stops_training_comes_first() -> None:
    result, _ = check_spoilt("training recording in the test")
    assert result.findings[0].severity == STOPS


def test_every_fault_has_a_check_that_exists() -> None:
    assert all(name in CHECKS for fault in PLANTED_FAULTS.values() for name in fault.checks)
