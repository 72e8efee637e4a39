from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.errors import DataError
from cgsa.estimators.arrays import as_samples, channels_by_samples, is_table, table_rows


@given(st.integers(1, 6), st.integers(7, 40))
def test_either_order_of_the_axes_is_recognised_by_the_number_of_channels(channels: int, samples: int) -> None:
    expected = np.arange(channels * samples, dtype=np.float32).reshape(channels, samples)
    for given_samples in (expected, expected.T):
        found, _ = channels_by_samples(given_samples, channels)
        np.testing.assert_array_equal(found, expected)


def test_a_square_is_refused_unless_the_order_is_stated_or_known_from_before() -> None:
    square = np.arange(4, dtype=np.float32).reshape(2, 2)
    with pytest.raises(DataError, match=r"both axes may be the 2 channels; pass channels_first=True"):
        channels_by_samples(square, 2)
    np.testing.assert_array_equal(channels_by_samples(square, 2, channels_first=False)[0], square.T)
    np.testing.assert_array_equal(channels_by_samples(square, 2, assumed=True)[0], square)


def test_a_stated_order_that_does_not_fit_is_refused() -> None:
    with pytest.raises(DataError, match="channels_first=True, but samples have the shape"):
        channels_by_samples(np.zeros((9, 2), np.float32), 2, channels_first=True)


@pytest.mark.parametrize("dtype", [np.int16, np.uint8, np.int64, np.float16, np.float64])
def test_numbers_of_any_type_become_single_precision(dtype: type[np.generic]) -> None:
    found = as_samples(np.arange(6, dtype=dtype).reshape(2, 3)[:, ::-1])
    assert found.dtype == np.float32
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, [[2, 1, 0], [5, 4, 3]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32])
def test_tensors_are_arrays_too(dtype: torch.dtype) -> None:
    tensor = torch.tensor([[1, 2], [3, 4]], dtype=dtype)
    np.testing.assert_array_equal(as_samples(tensor.requires_grad_(tensor.is_floating_point())), [[1, 2], [3, 4]])


def test_masked_values_become_nan_and_huge_ones_infinite() -> None:
    masked: Any = np.ma.MaskedArray([1, 2, 3], mask=[False, True, False])
    np.testing.assert_array_equal(as_samples(masked), [1, np.nan, 3])
    np.testing.assert_array_equal(as_samples([1e300]), [np.inf])


@pytest.mark.parametrize("values", [["a", "b"], [1j], [True, False], [None, 1.0]])
def test_what_is_no_number_is_refused(values: Any) -> None:
    with pytest.raises(DataError, match="expected real numbers"):
        as_samples(values)


def test_rows_of_different_lengths_and_nothing_at_all_are_refused() -> None:
    with pytest.raises(DataError, match="rows of different lengths"):
        as_samples([[1.0, 2.0], [3.0]])
    with pytest.raises(DataError, match="holds no sample"):
        as_samples([])


@pytest.mark.parametrize("library", [pd, pl])
def test_tables_are_read_by_the_names_of_their_columns(library: Any) -> None:
    table = library.DataFrame({"b": [3, 4], "time": [0.0, 0.1], "a": [1.0, 2.0]})
    assert is_table(table)
    np.testing.assert_array_equal(table_rows(table, ["a", "b"]), [[1, 2], [3, 4]])
    with pytest.raises(DataError, match="no column c; it has b, time, a"):
        table_rows(table, ["a", "c"])


def test_arrays_and_tensors_are_no_tables() -> None:
    assert not any(map(is_table, (np.zeros(2), torch.zeros(2), [1], pd.Series([1]))))
