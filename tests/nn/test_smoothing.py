from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.nn.smoothing import running_mean


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=30), st.integers(1, 40))
def test_running_means_equal_a_loop(values: list[float], count: int) -> None:
    literal = [np.mean(values[max(0, place + 1 - count) : place + 1]) for place in range(len(values))]
    np.testing.assert_allclose(running_mean(torch.tensor(values, dtype=torch.float64), count), literal, atol=1e-9)
