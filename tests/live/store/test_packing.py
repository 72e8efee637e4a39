from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.errors import DataError
from cgsa.live.store import pack_columns, unpack_columns
from cgsa.live.store.packing import pack_samples, unpack_samples
from tests.live.store.examples import bits, columns


@given(windows=st.integers(1, 40), seed=st.integers(0, 99), learns=st.booleans(), begin=st.floats(-1e9, 1e10, width=64))
def test_columns_are_packed_without_loss(*, windows: int, seed: int, learns: bool, begin: float) -> None:
    given_columns = columns(begin, windows, seed, learns=learns)
    layout, data = pack_columns(given_columns)
    found = unpack_columns(layout, data, windows)
    assert list(found) == list(given_columns)
    for name, column in given_columns.items():
        assert bits(found[name]) == bits(column)


@pytest.mark.parametrize("harm", [lambda data: data[:-9], lambda data: b"?" + data, lambda data: b""])
def test_damaged_columns_are_refused(harm: Callable[[bytes], bytes]) -> None:
    layout, data = pack_columns(columns(0.0))
    with pytest.raises(DataError, match="the store is damaged"):
        unpack_columns(layout, harm(data), 8)
    with pytest.raises(DataError, match="the store is damaged"):
        unpack_columns(layout, data, 7)


@given(channels=st.integers(1, 4), samples=st.integers(0, 50), seed=st.integers(0, 99))
def test_waveforms_are_packed_without_loss(channels: int, samples: int, seed: int) -> None:
    # Arbitrary bits, so that infinity and every NaN occur; and not contiguous in memory.
    raw = np.random.default_rng(seed).integers(0, 2**32, (samples, channels), np.uint32)
    wave = raw.view(np.float32).T
    found = unpack_samples(pack_samples(wave), channels, samples)
    assert found.shape == wave.shape
    assert bits(found) == bits(wave)
