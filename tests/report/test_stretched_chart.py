from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.report.stretched_chart import (
    HEIGHT,
    WIDTH,
    Scale,
    mean_per_interval,
    shares_per_interval,
    stacked_shares,
    state_intervals,
)


@given(st.lists(st.tuples(st.integers(-1, 3), st.booleans()), min_size=1, max_size=200))
def test_intervals_cover_the_stream_once_and_change_at_every_border(values: list[tuple[int, bool]]) -> None:
    state, wrong = (np.array(column) for column in zip(*values, strict=True))
    found = state_intervals((np.arange(len(state)) + 1) * np.float64(0.05), state, wrong)
    assert sum(one.width for one in found) == pytest.approx(100)
    for before, after in pairwise(found):
        assert before.left + before.width == pytest.approx(after.left)
        assert before.seconds[1] == pytest.approx(after.seconds[0])
        assert (before.state, before.wrong) != (after.state, after.wrong)
    for place, value in enumerate(values):
        middle = 100 * (place + 0.5) / len(values)
        [inside] = [one for one in found if one.left <= middle < one.left + one.width]
        assert (inside.state, inside.wrong) == value


@given(st.lists(st.tuples(st.floats(0.01, 10), st.integers(0, 2)), min_size=1, max_size=60), st.integers(1, 20))
def test_shares_and_means_equal_those_counted_one_by_one(values: list[tuple[float, int]], count: int) -> None:
    time, state = (np.array(column) for column in zip(*values, strict=True))
    shares = shares_per_interval(time, state, 3, 10.0, count)
    means = mean_per_interval(time, state, 10.0, count)
    for place in range(count):
        inside = [one for at, one in values if min(count - 1, int(at / 10 * count - 1e-9)) == place]
        if not inside:
            assert np.isnan(shares[place]).all()
            assert np.isnan(means[place])
            continue
        assert shares[place] == pytest.approx([inside.count(one) / len(inside) for one in range(3)])
        assert means[place] == pytest.approx(sum(inside) / len(inside))


def test_stacked_shares_fill_the_height_and_leave_gaps() -> None:
    first, second = stacked_shares(np.array([[0.25, 0.75], [np.nan, np.nan], [1.0, 0.0]]))
    assert first.count("M") == 2
    assert second.count("M") == 1
    assert second.startswith("M0.00 0.0h")
    assert f"v{0.25 * HEIGHT:.1f}" in first


def test_unknown_values_are_left_out_and_wild_ones_stay_inside() -> None:
    scale = Scale(10.0, 0.0, 2.0)
    path = scale.line(np.array([0.0, 5.0, 10.0]), np.array([1.0, np.nan, 99.0]))
    assert path == f"M0.0 50.0L{WIDTH}.0 0.0"
    assert scale.dots(np.array([5.0]), np.array([-3.0])) == "M500.0 100.0h0"
    assert scale.band(0.0, 2.0) == f"M0 0.0H{WIDTH}V100.0H0z"
    assert scale.ticks([1.0], " Nm") == ((50.0, "1 Nm"),)
