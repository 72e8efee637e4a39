"""A robust trend: the slope of Theil and Sen, and the test of Mann and Kendall for whether it is one.

Sen, P. K. (1968): Estimates of the regression coefficient based on Kendall's tau. Levels of a machine that runs through
cycles of load resemble their neighbours in time, which makes a rise by chance more likely; the variance of the test is
enlarged accordingly (Bayley and Hammersley, 1946).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from cgsa.metrics.accuracy import DoubleArray

MIN_POINTS = 12
"""With fewer points, nothing is called a trend."""
MAX_CORRELATION = 0.95
"""Limit of the estimated correlation of neighbours, which keeps the variance finite."""


@dataclass(frozen=True)
class RobustTrend:
    """The straight line through points in time."""

    slope: float
    """Median of the slopes of all pairs of points, per unit of time."""
    level: float
    """Value of the line at the last point."""
    significance: float
    """Mann and Kendall's statistic in standard deviations; positive for a rise."""


def robust_trend(times: DoubleArray, values: DoubleArray) -> RobustTrend | None:
    """Return the trend of values at ascending times; None if too few of the values are numbers.

    >>> trend = robust_trend(np.arange(20.0), 3 + 0.5 * np.arange(20.0))
    >>> trend.slope, trend.level, round(trend.significance, 1)
    (0.5, 12.5, 6.1)
    """
    known = np.isfinite(values)
    times, values = times[known], values[known]
    count = len(values)
    if count < MIN_POINTS:
        return None
    before, after = np.triu_indices(count, 1)
    rises, waits = values[after] - values[before], times[after] - times[before]
    slope = float(np.median(rises[waits > 0] / waits[waits > 0])) if (waits > 0).any() else 0.0
    rest = values - slope * times
    level = float(np.median(rest)) + slope * float(times[-1])
    score = float(np.sign(rises).sum())
    correlation = _neighbour_correlation(rest)
    variance = count * (count - 1) * (2 * count + 5) / 18 * (1 + correlation) / (1 - correlation)
    # Towards zero by one, since the score is a whole number and is compared with a continuous distribution.
    return RobustTrend(slope, level, float(np.sign(score)) * max(0.0, abs(score) - 1) / sqrt(variance))


def _neighbour_correlation(values: DoubleArray) -> float:
    """Return how far values resemble their neighbours, from 0 to just below 1."""
    deviation = values - values.mean()
    power = float(deviation @ deviation)
    # DoubleArray on a straight line differ from it by rounding alone.
    if power <= 1e-20 * float(values @ values):
        return 0.0
    return min(MAX_CORRELATION, max(0.0, float(deviation[1:] @ deviation[:-1]) / power))
