from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cgsa.data.intervals import Trace, held_intervals, rising_intervals, smoothed

traces = arrays(np.float64, st.integers(1, 40), elements=st.integers(0, 10).map(float))


def slowly_rising(trace: Trace, low: float, high: float) -> list[tuple[int, int]]:
    """Walk through the samples: remember the last low one until a high one comes."""
    found, last_low = [], None
    for place, value in enumerate(trace):
        if value >= high:
            if last_low is not None:
                found.append((last_low, place + 1))
            last_low = None
        elif value <= low:
            last_low = place
    return found


def slowly_held(trace: Trace, level: float, tolerance: float, least: int) -> list[tuple[int, int]]:
    """Extend an interval by one sample after the other."""
    found, begin = [], 0
    for place, value in enumerate([*trace, np.inf]):
        if abs(value - level) > tolerance:
            if place - begin >= least and place > begin:
                found.append((begin, place))
            begin = place + 1
    return found


@given(trace=traces, low=st.integers(0, 5), rise=st.integers(1, 5))
def test_rises_are_those_of_a_walk_through_the_samples(trace: Trace, low: int, rise: int) -> None:
    assert rising_intervals(trace, low, low + rise) == slowly_rising(trace, low, low + rise)


@given(trace=traces, level=st.integers(0, 10), tolerance=st.integers(0, 3), rate=st.integers(1, 8))
def test_held_levels_are_those_of_a_walk_through_the_samples(
    trace: Trace, level: int, tolerance: int, rate: int
) -> None:
    least = min(rate, len(trace))
    assert held_intervals([(trace, level, tolerance)], rate) == slowly_held(trace, level, tolerance, least)


@given(trace=traces, levels=st.tuples(st.integers(0, 10), st.integers(0, 10)))
def test_several_levels_are_held_where_each_of_them_is(trace: Trace, levels: tuple[int, int]) -> None:
    other = trace[::-1].copy()
    both = held_intervals([(trace, levels[0], 1), (other, levels[1], 2)], 1)
    each = [held_intervals([one], 1) for one in ((trace, levels[0], 1), (other, levels[1], 2))]
    inside = [{place for begin, end in one for place in range(begin, end)} for one in each]
    assert {place for begin, end in both for place in range(begin, end)} == inside[0] & inside[1]


@pytest.mark.parametrize("rate", [10.0, 40.0, 5000.0])
def test_a_constant_stays_itself_and_noise_shrinks(rate: float) -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(3, 1, 1000).astype(np.float32)
    assert np.allclose(smoothed(np.full(50, 3, np.float32), rate), 3)
    found = smoothed(noise, rate)
    assert found.shape == noise.shape
    assert np.std(found) <= np.std(noise) + 1e-6
