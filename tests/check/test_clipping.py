from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.check.checks.clipping import is_clipped
from cgsa.check.statistics import ChannelStatistics, StatisticsMeter
from cgsa.data.recording import FloatArray


def statistics_of(samples: FloatArray) -> ChannelStatistics:
    meter = StatisticsMeter()
    meter.add(samples.astype(np.float32))
    return meter.result()


def clipped_sides(samples: FloatArray) -> list[bool]:
    found = statistics_of(samples)
    return [is_clipped(extreme, found) for extreme in (found.top, found.bottom)]


def noise(levels: int, samples: int = 2000, seed: int = 0) -> FloatArray:
    """Return normal noise of a sensor with so many values per standard deviation."""
    return np.asarray(np.round(levels * np.random.default_rng(seed).normal(size=samples)) / levels, np.float32)


@pytest.mark.parametrize("levels", [8, 12, 50, 10_000])
def test_clipped_noise_is_found_at_any_resolution(levels: int) -> None:
    whole = noise(levels)
    assert clipped_sides(whole) == [False, False]
    assert clipped_sides(np.minimum(whole, np.float32(2.0))) == [True, False]


@given(
    levels=st.integers(4, 300),
    frequency=st.floats(0.01, 1.0),
    depth=st.sampled_from([0.0, 0.3]),
    rough=st.sampled_from([0.0, 0.03, 0.3]),
    seed=st.integers(0, 100),
)
def test_a_sine_is_not_clipped(levels: int, frequency: float, depth: float, rough: float, seed: int) -> None:
    """Its samples are most frequent at the ends of its range."""
    time = np.arange(4000)
    sine = np.sin(frequency * time) * (1 + depth * np.sin(1e-3 * time))
    sine += rough * np.random.default_rng(seed).normal(size=len(time))
    assert clipped_sides(np.asarray(np.round(levels * sine) / levels, np.float32)) == [False, False]
