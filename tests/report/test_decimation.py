from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cgsa.report.decimation import min_max_indices


@given(arrays(np.float32, st.integers(1, 500), elements=st.floats(-1e3, 1e3, width=32)), st.integers(2, 60))
def test_every_peak_and_the_order_are_kept(values: np.ndarray, points: int) -> None:
    kept = min_max_indices(values, points)
    assert len(kept) <= max(points, 2)
    assert (np.diff(kept) > 0).all()
    assert values[kept].max() == values.max()
    assert values[kept].min() == values.min()


def test_every_interval_keeps_its_extremes() -> None:
    values = np.random.default_rng(0).standard_normal(1000)
    kept = set(min_max_indices(values, 100).tolist())
    for begin in range(0, 1000, 20):
        interval = values[begin : begin + 20]
        assert {begin + int(interval.argmin()), begin + int(interval.argmax())} <= kept


def test_a_short_signal_is_kept_whole() -> None:
    assert min_max_indices(np.zeros(5), 5).tolist() == [0, 1, 2, 3, 4]
