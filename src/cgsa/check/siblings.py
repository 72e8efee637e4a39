"""What is usual among recordings of one set: limits come from the other recordings, not from a table.

A fault in a few recordings must not change what counts as usual, so everything here is made of medians and quartiles.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

DoubleArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
FENCE = 3.0
"""Quartile distances beyond a quartile at which a value is far out (Tukey, Exploratory Data Analysis, 1977)."""
FEWEST_SIBLINGS = 4
"""With fewer values there are no quartiles."""
POLISHINGS = 10


def upper_fence(values: DoubleArray) -> float:
    """Return the outer fence above the values; infinite if they are too few. NaN are ignored.

    >>> float(upper_fence(np.array([1.0, 2.0, 3.0, 4.0, 5.0])))
    10.0
    """
    known = values[np.isfinite(values)]
    if len(known) < FEWEST_SIBLINGS:
        return np.inf
    low, high = np.quantile(known, (0.25, 0.75))
    return float(high + FENCE * (high - low))


def far_above(values: DoubleArray, *, least: float) -> BoolArray:
    """Return which values are beyond the outer fence and above ``least``, which is what matters in practice."""
    return np.asarray(values > max(upper_fence(values), least))


def expected_values(values: DoubleArray, factors: Sequence[Sequence[str]]) -> DoubleArray:
    """Return what the factors of each row predict for it, by median polish (Tukey 1977).

    ``values`` is (rows, columns), and every factor has the name of its level for each row. A factor that has a level of
    its own for nearly every row explains nothing and must be left out by the caller.
    """
    levels = [np.unique(np.asarray(factor), return_inverse=True)[1] for factor in factors]
    fitted = np.broadcast_to(np.median(values, axis=0), values.shape).copy()
    for _ in range(POLISHINGS if levels else 0):
        for level in levels:
            rest = values - fitted
            effects = np.stack([np.median(rest[level == number], axis=0) for number in range(level.max() + 1)])
            fitted += effects[level]
    return fitted
