"""Recordings in which two channels are exchanged."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.bands import DoubleArray, band_levels, channels_with_spectrum, expected_levels
from cgsa.check.finding import WARNING
from cgsa.check.siblings import far_above

LEAST = 0.5
"""Share of the usual difference between two channels by which their exchange must fit better."""


def find_swapped_channels(data: DataSummary) -> Iterator[Finding]:
    """Yield recordings whose channels fit their siblings better if two of them are exchanged."""
    for first, second in combinations(data.channels, 2):
        both = [{one.recording.name: one for one in channels_with_spectrum(data, name)} for name in (first, second)]
        names = [name for name in both[0] if name in both[1]]
        if len(names) < 2:
            continue
        levels, expected = [], []
        for found in both:
            channels = [found[name] for name in names]
            levels.append(band_levels(channels))
            expected.append(expected_levels(channels, levels[-1]))
        gains = exchange_gains(levels, expected)
        usual = float(np.median(-gains))
        for place in np.flatnonzero(far_above(gains, least=LEAST * usual)) if usual > 0 else ():
            yield Finding(
                WARNING,
                f"{names[place]}: {first} looks like {second} of the other recordings, and {second} like {first}",
                "A model reads channels by their place; for it, this machine is one that it has never seen",
                "Check the cabling or the order of the columns of this recording, and exchange the channels",
                (names[place],),
                f"{first} and {second}",
            )


def exchange_gains(levels: list[DoubleArray], expected: list[DoubleArray]) -> DoubleArray:
    """Return by how much the mean distance to the expected levels falls if two channels are exchanged."""

    def distance(own: int, other: int) -> DoubleArray:
        return np.asarray(np.abs(levels[own] - expected[other]).mean(axis=1))

    return distance(0, 0) + distance(1, 1) - distance(0, 1) - distance(1, 0)


CHECK = Check("recordings in which two channels are exchanged", find_swapped_channels, frozenset({"spectrum"}))
