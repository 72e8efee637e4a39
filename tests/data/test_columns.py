from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from cgsa.data.columns import column_chunks, stack_columns
from cgsa.errors import DataError


def test_arrays_and_chunked_columns_are_stacked_and_scaled() -> None:
    chunked = pa.chunked_array([pa.array([1.0, 2.0]), pa.array([3.0])])
    stacked = stack_columns([np.array([0.1, 0.2, 0.3]), chunked], [6.0, 1.0])
    assert stacked.dtype == np.float32
    np.testing.assert_array_equal(stacked, np.array([[6 * 0.1, 6 * 0.2, 6 * 0.3], [1, 2, 3]], np.float32))


def test_columns_are_not_scaled_by_default() -> None:
    np.testing.assert_array_equal(stack_columns([np.arange(4.0)]), [[0, 1, 2, 3]])


def test_scaling_rounds_once() -> None:
    """A product in single precision would round the column before the factor."""
    values = np.random.default_rng(0).normal(size=1000)
    np.testing.assert_array_equal(stack_columns([values], [0.1])[0], (values * 0.1).astype(np.float32))


def test_empty_cells_are_nan() -> None:
    assert np.isnan(column_chunks(pa.chunked_array([pa.array([1.0, None])]))[0]).tolist() == [False, True]


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(DataError, match=r"columns of different lengths, \[2, 3\]"):
        stack_columns([np.zeros(2), np.zeros(3)])
