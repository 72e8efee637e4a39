"""Recordings in which two channels are exchanged."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.bands import DoubleArray, band_levels, channels_with_spectrum, expected_levels
from cgsa.check.finding import WARNING
from cgsa.check.siblings import FEWEST_SIBLINGS

BANDS = 32
LEAST = 0.05
"""Gain of a fit from which on it is clear: for an exchange in one recording, and against it in nearly all others."""
NEARLY_ALL = 0.9


def find_swapped_channels(data: DataSummary) -> Iterator[Finding]:
    """Yield recordings whose channels fit their siblings better if two of them are exchanged."""
    for first, second in combinations(data.channels, 2):
        both = [{one.recording.name: one for one in channels_with_spectrum(data, name)} for name in (first, second)]
        names = [name for name in both[0] if name in both[1]]
        if len(names) < FEWEST_SIBLINGS:
            continue
        levels, expected = [], []
        for found in both:
            channels = [found[name] for name in names]
            levels.append(band_levels(channels, BANDS))
            expected.append(expected_levels(channels, levels[-1]))
        gains = exchange_gains(levels, expected)
        distinct = np.quantile(gains, NEARLY_ALL) < -LEAST
        for place in np.flatnonzero(gains > LEAST) if distinct else ():
            yield Finding(
                WARNING,
                f"{names[place]}: {first} looks like {second} of the other recordings, and {second} like {first}",
                "A model reads channels by their place; for it, this machine is one that it has never seen",
                "Check the cabling or the order of the columns of this recording, and exchange the channels",
                (names[place],),
                f"{first} and {second}",
            )


def exchange_gains(levels: list[DoubleArray], expected: list[DoubleArray]) -> DoubleArray:
    """Return how much better two channels fit if they are exchanged, from -1 (much worse) to 1 (much better)."""

    def distance(own: int, other: int) -> DoubleArray:
        return np.asarray(np.abs(levels[own] - expected[other]).mean(axis=1))

    as_named, exchanged = distance(0, 0) + distance(1, 1), distance(0, 1) + distance(1, 0)
    return np.asarray((as_named - exchanged) / np.maximum(as_named + exchanged, np.finfo(np.float64).tiny))


CHECK = Check("recordings in which two channels are exchanged", find_swapped_channels, frozenset({"spectrum"}))
