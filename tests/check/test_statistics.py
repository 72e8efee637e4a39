from __future__ import annotations

from itertools import groupby, pairwise
from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.check.intervals import IntervalMeter
from cgsa.check.landmarks import LandmarkMeter
from cgsa.check.statistics import KEPT_EXTREMES, ChannelStatistics, StatisticsMeter
from cgsa.data.recording import FloatArray

VALUES = st.lists(st.sampled_from([-2.0, 0.0, 0.5, 1.0, 7.0, float("nan")]), min_size=1, max_size=80)


def measured(samples: FloatArray, cuts: list[int]) -> ChannelStatistics:
    meter = StatisticsMeter()
    borders = sorted({0, len(samples), *(cut % len(samples) for cut in cuts)})
    for begin, end in pairwise(borders):
        meter.add(samples[begin:end])
    return meter.result()


@given(VALUES, st.lists(st.integers(0, 1000), max_size=5))
def test_statistics_equal_those_of_a_literal_count_however_the_signal_is_cut(
    values: list[float], cuts: list[int]
) -> None:
    samples = np.array(values, np.float32)
    found = measured(samples, cuts)
    finite = [value for value in values if not isnan(value)]
    assert (found.samples, found.missing) == (len(values), len(values) - len(finite))
    # NaN differs from itself, so that it makes no run.
    runs = [len(list(group)) for value, group in groupby(values) if not isnan(value)]
    assert found.run.length == max([*runs, 1])
    if finite:
        assert (found.top.extreme, found.bottom.extreme) == (max(finite), min(finite))
        assert found.top.at_extreme == finite.count(max(finite))
        assert found.mean == pytest.approx(np.mean(finite))
        assert found.deviation == pytest.approx(np.std(finite), abs=1e-6)


@given(st.integers(0, 100), st.lists(st.integers(0, 1999), max_size=4))
def test_the_largest_values_are_counted_in_all_blocks(seed: int, cuts: list[int]) -> None:
    samples = np.random.default_rng(seed).integers(0, 500, 2000).astype(np.float32)
    values, counts = np.unique(samples, return_counts=True)
    found = measured(samples, cuts)
    np.testing.assert_array_equal(found.top.values, values[::-1][:KEPT_EXTREMES])
    np.testing.assert_array_equal(found.top.counts, counts[::-1][:KEPT_EXTREMES])
    np.testing.assert_array_equal(found.bottom.values, values[:KEPT_EXTREMES])


def test_a_large_offset_does_not_hide_a_small_signal() -> None:
    samples = (1e4 + np.random.default_rng(0).normal(size=5000)).astype(np.float32)
    assert measured(samples, [1000]).deviation == pytest.approx(1.0, rel=0.05)


def test_intervals_do_not_depend_on_later_cuts() -> None:
    samples = np.random.default_rng(1).normal(size=5000).astype(np.float32)
    meters = IntervalMeter(), IntervalMeter()
    for begin, end in ((0, 1000), (1000, 5000)):
        meters[0].add(samples[begin:end])
    for begin, end in ((0, 1000), (1000, 1003), (1003, 5000)):
        meters[1].add(samples[begin:end])
    first, second = (meter.result() for meter in meters)
    np.testing.assert_allclose(first.means, second.means)
    np.testing.assert_allclose(first.rms, second.rms)
    assert first.means[0] == pytest.approx(samples[: first.length].mean())


@pytest.mark.parametrize("smooth", [False, True])
def test_landmarks_of_blocks_are_those_of_the_whole(*, smooth: bool) -> None:
    samples = np.random.default_rng(2).normal(size=6000)
    if smooth:
        samples = 100 * np.sin(np.arange(6000) / 30) + samples
    whole, parts = LandmarkMeter(), LandmarkMeter()
    whole.add(samples.astype(np.float32))
    for begin, end in ((0, 2000), (2000, 2500), (2500, 2501), (2501, 6000)):
        parts.add(samples[begin:end].astype(np.float32))
    first, second = whole.result(), parts.result()
    assert len(first.places) > 20
    assert set(zip(first.places, first.patterns, strict=True)) == set(zip(second.places, second.patterns, strict=True))
