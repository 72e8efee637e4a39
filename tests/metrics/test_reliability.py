from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.metrics.calibration import expected_calibration_error
from cgsa.metrics.reliability import Reliability

rows = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40)


def diagram(given: list[tuple[float, bool]]) -> Reliability:
    return Reliability.of(np.array([one for one, _ in given]), np.array([right for _, right in given]))


@given(rows)
def test_its_calibration_error_is_that_of_the_paper(given: list[tuple[float, bool]]) -> None:
    expected = expected_calibration_error(np.array([p for p, _ in given]), np.array([right for _, right in given]))
    assert diagram(given).calibration_error == pytest.approx(expected, abs=1e-12)


@given(rows, rows)
def test_parts_add_up_to_the_whole(one: list[tuple[float, bool]], other: list[tuple[float, bool]]) -> None:
    whole, parts = diagram([*one, *other]), Reliability.total([diagram(one), diagram(other)])
    assert (whole.windows, whole.correct) == (parts.windows, parts.correct)
    assert whole.probability == pytest.approx(parts.probability)


def test_points_leave_empty_bins_out() -> None:
    found = diagram([(0.9, True), (0.82, False), (0.05, False)])
    assert [count for _, _, count in found.points] == [1, 2]
    assert found.points[1][:2] == pytest.approx((0.86, 0.5))
    assert Reliability((), (), ()).calibration_error is None
