from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgsa.errors import BundleError
from cgsa.live.levels.block_means import BlockMeans
from cgsa.live.levels.start import StartLevels


def blocks(seconds: float = 4.0, kept: int = 5) -> BlockMeans:
    return BlockMeans((1,), block_seconds=seconds, max_blocks=kept)


@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.one_of(st.just(float("nan")), st.floats(-5, 5)), min_size=1, max_size=60))
def test_equals_means_of_the_whole_list(values: list[float]) -> None:
    found = blocks()
    ends = [found.add(np.array([value]), float(second), second + 1.0) for second, value in enumerate(values)]
    assert ends == [second % 4 == 3 for second in range(len(values))]
    whole = [values[begin : begin + 4] for begin in range(0, len(values) - 3, 4)][-5:]
    assert found.complete == len(whole)
    for mean, part in zip(found.means[5 - len(whole) :, 0], whole, strict=True):
        known = [value for value in part if value == value]  # noqa: PLR0124 - not a number
        assert mean == pytest.approx(sum(known) / len(known) if known else float("nan"), nan_ok=True)
    assert np.isnan(found.means[: 5 - len(whole)]).all()


def test_no_block_spans_a_long_gap() -> None:
    found = blocks()
    found.add(np.array([1.0]), 0.0, 1.0)
    assert found.add(np.array([7.0]), 100.0, 101.0)
    assert found.means[-1].tolist() == [1.0]
    assert found.times[-1] == 0.5


def test_a_clock_that_was_set_back_ends_a_block() -> None:
    found = blocks()
    found.add(np.array([1.0]), 1000.0, 1001.0)
    assert found.add(np.array([3.0]), 10.0, 11.0)
    assert not found.add(np.array([5.0]), 11.0, 12.0)
    assert found.complete == 1


def test_resumes_at_any_batch() -> None:
    rng = np.random.default_rng(0)
    whole, part = blocks(), blocks()
    for second in range(40):
        level = rng.normal(size=1)
        whole.add(level, float(second), second + 1.0)
        part.add(level, float(second), second + 1.0)
        resumed = blocks()
        resumed.load_state_dict(part.state_dict())
        part = resumed
    np.testing.assert_array_equal(part.means, whole.means)
    np.testing.assert_array_equal(part.times, whole.times)
    with pytest.raises(BundleError, match="does not fit"):
        BlockMeans((2,), block_seconds=1, max_blocks=5).load_state_dict(part.state_dict())


def test_the_start_is_a_median_and_is_observed_once() -> None:
    start = StartLevels((1, 2), seconds=10.0)
    for second in range(40):
        value = 50.0 if second in {2, 3} or second > 10 else 1.0 + 0.1 * (second % 2)
        start.add(np.array([[value, np.nan]]), float(second), second + 1.0)
        assert start.share == min(1.0, (second + 1) // 2 / 5)
        assert np.isnan(start.levels[0, 1])
        assert start.levels[0, 0] == pytest.approx(1.05 if second >= 9 else np.nan, nan_ok=True)
    again = StartLevels((1, 2), seconds=10.0)
    again.load_state_dict(start.state_dict())
    np.testing.assert_array_equal(again.levels, start.levels)
    again.restart()
    assert again.share == 0
    assert np.isnan(again.levels).all()
