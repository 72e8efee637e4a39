from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.online.trend import BLOCKS, MIN_BLOCKS, Trend


def course(values: list[float], block: float = 10.0) -> Trend:
    trend = Trend.empty(torch.device("cpu"))
    for number, value in enumerate(values):
        for half in (0.0, 0.5):
            begin = (number + half) * block
            trend = trend.add(torch.full((4,), value), begin, begin + block / 2, block)
    return trend


@given(st.floats(-2, 2), st.integers(MIN_BLOCKS, 30))
def test_a_straight_line_has_its_slope(slope: float, blocks: int) -> None:
    found = course([1 + slope * number for number in range(blocks)]).per_hour()
    assert found == pytest.approx(slope * 360, rel=1e-3, abs=1e-3)


def test_single_outliers_leave_the_slope_alone() -> None:
    values = [0.01 * number for number in range(20)]
    values[3], values[11] = 50.0, -50.0
    assert course(values).per_hour() == pytest.approx(3.6, rel=0.2)


def test_there_is_no_slope_at_first_and_old_blocks_are_discarded() -> None:
    assert course([1.0] * (MIN_BLOCKS - 1)).per_hour() is None
    assert len(course([1.0] * (BLOCKS + 5)).times) == BLOCKS


def test_a_gap_ends_a_block() -> None:
    trend = Trend.empty(torch.device("cpu")).add(torch.ones(2), 0.0, 1.0, 10.0)
    trend = trend.add(torch.zeros(2), 100.0, 101.0, 10.0)
    assert trend.values.tolist() == [1.0]
    assert trend.newest.tolist() == [100.0, 101.0, 0.0, 2.0]


def test_tensors_give_the_trend_back() -> None:
    trend = course([1.0, 2.0, 3.0, 4.0, 5.0])
    assert Trend.from_tensors(trend.tensors()).per_hour() == trend.per_hour()
