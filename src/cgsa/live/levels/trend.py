"""A robust trend: the slope of Theil and Sen, and how certain it is.

Sen, P. K. (1968): Estimates of the regression coefficient based on Kendall's tau. Levels of a machine that runs through
cycles of load resemble their neighbours in time, which makes a rise by chance more likely; so they count as fewer
values (Bayley and Hammersley, 1946).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np

from cgsa.metrics.accuracy import DoubleArray

MIN_POINTS = 44
"""With fewer points, nothing is called a trend. If 48 are a day, no part of a daily cycle is taken for one."""
MAX_CORRELATION = 0.95
"""Limit of the estimated correlation of neighbours, which leaves more than one value to count."""
NORMAL_MAD = 1.4826
"""Standard deviation of a normal distribution, in median distances from its median."""


@dataclass(frozen=True)
class RobustTrend:
    """The straight line through points in time."""

    slope: float
    """Median of the slopes of all pairs of points, per unit of time."""
    level: float
    """Value of the line at the last point."""
    significance: float
    """The slope in its own standard deviations; infinite for points on a line."""


def robust_trend(times: DoubleArray, values: DoubleArray) -> RobustTrend | None:
    """Return the trend of values at ascending times; None if too few of the values are numbers.

    >>> robust_trend(np.arange(48.0), 3 + 0.5 * np.arange(48.0))
    RobustTrend(slope=0.5, level=26.5, significance=inf)
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
    middle = float(np.median(rest))
    spread = NORMAL_MAD * float(np.median(np.abs(rest - middle)))
    # Points on a line differ from it by rounding alone.
    if spread <= 1e-9 * float(np.abs(values).max()):
        return RobustTrend(slope, middle + slope * float(times[-1]), inf if slope > 0 else -inf if slope < 0 else 0.0)
    correlation = _neighbour_correlation(rest)
    independent = count * (1 - correlation) / (1 + correlation)
    certainty = slope * float(times.std()) * sqrt(independent) / spread
    return RobustTrend(slope, middle + slope * float(times[-1]), certainty)


def _neighbour_correlation(values: DoubleArray) -> float:
    """Return how far values resemble their neighbours, from 0 to just below 1."""
    deviation = values - values.mean()
    return min(MAX_CORRELATION, max(0.0, float(deviation[1:] @ deviation[:-1]) / float(deviation @ deviation)))
