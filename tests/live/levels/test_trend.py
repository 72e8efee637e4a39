from __future__ import annotations

from math import sqrt
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.live.levels.trend import MIN_POINTS, robust_trend


def literal_slope(times: list[float], values: list[float]) -> float:
    pairs = [(i, j) for i in range(len(times)) for j in range(i + 1, len(times)) if times[j] > times[i]]
    return median((values[j] - values[i]) / (times[j] - times[i]) for i, j in pairs)


def literal_significance(times: list[float], values: list[float]) -> float:
    n, slope = len(values), literal_slope(times, values)
    rest = [value - slope * time for time, value in zip(times, values, strict=True)]
    spread = 1.4826 * median(abs(value - median(rest)) for value in rest)
    mean = sum(rest) / n
    power = sum((value - mean) ** 2 for value in rest)
    r = sum((a - mean) * (b - mean) for a, b in zip(rest[1:], rest[:-1], strict=True)) / power
    r = min(0.95, max(0.0, r))
    middle = sum(times) / n
    deviation = sqrt(sum((time - middle) ** 2 for time in times) / n)
    return slope * deviation * sqrt(n * (1 - r) / (1 + r)) / spread


@given(seed=st.integers(0, 10_000), count=st.integers(MIN_POINTS, 50), slope=st.floats(-1, 1))
def test_equals_the_literal_definition(seed: int, count: int, slope: float) -> None:
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.uniform(0.5, 2.0, count))
    values = slope * times + rng.normal(size=count)
    found = robust_trend(times, values)
    assert found is not None
    assert found.slope == pytest.approx(literal_slope(times.tolist(), values.tolist()), rel=1e-9, abs=1e-12)
    assert found.significance == pytest.approx(
        literal_significance(times.tolist(), values.tolist()), rel=1e-6, abs=1e-9
    )


def test_a_few_wild_values_change_nothing() -> None:
    times = np.arange(48.0)
    values = 2.0 + 0.1 * times
    values[[3, 17, 30, 31]] = [90.0, 0.0, 40.0, -50.0]
    found = robust_trend(times, values)
    assert found is not None
    assert found.slope == pytest.approx(0.1)
    assert found.level == pytest.approx(6.7)
    assert found.significance > 3


def test_missing_values_are_left_out_and_few_have_no_trend() -> None:
    times, values = np.arange(90.0), 0.5 * np.arange(90.0)
    values[::3] = np.nan
    found = robust_trend(times, values)
    assert found is not None
    assert found.slope == pytest.approx(0.5)
    values[MIN_POINTS:] = np.nan
    assert robust_trend(times, values) is None
    assert robust_trend(np.full(60, np.nan), np.full(60, np.nan)) is None


def test_levels_that_do_not_change_have_no_trend() -> None:
    found = robust_trend(np.arange(50.0), np.full(50, 3.0))
    assert found is not None
    assert (found.slope, found.level, found.significance) == (0.0, 3.0, 0.0)


def test_slow_fluctuations_are_rarely_taken_for_a_trend() -> None:
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(300):
        values = np.zeros(100)
        for n in range(1, 100):
            values[n] = 0.6 * values[n - 1] + rng.normal()
        found = robust_trend(np.arange(48.0), values[-48:])
        assert found is not None
        wrong += found.significance >= 3
    assert wrong <= 9


@pytest.mark.parametrize("count", [MIN_POINTS, 48])
def test_a_daily_cycle_is_no_trend(count: int) -> None:
    rng = np.random.default_rng(0)
    time = np.arange(float(count))
    found = []
    for phase in np.linspace(0, 1, 50):
        cycle = 2 + 0.6 * np.sin(2 * np.pi * (time / 48 + phase)) + rng.normal(0, 0.02, count)
        trend = robust_trend(time, cycle)
        assert trend is not None
        found.append(trend.significance)
    assert max(found) < 3


@pytest.mark.parametrize("growth", [1.2, 2.0, 8.0])
def test_a_rise_that_accelerates_is_a_trend(growth: float) -> None:
    time = np.arange(48.0)
    noise = np.random.default_rng(0).normal(0, 0.02, 48)
    found = robust_trend(time, 2 * growth ** (time / 47) + noise)
    assert found is not None
    assert found.significance >= 3
