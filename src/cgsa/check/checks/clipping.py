"""Channels that reach the end of their range."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.finding import WARNING
from cgsa.check.statistics import ChannelStatistics, ExtremeValues

FEWEST = 5
"""Samples at exactly the extreme value of a clipped channel, at least."""
NEAR = 0.02
"""Values within this share of the distance between mean and extreme value are near it."""
NEAR_VALUES = 3.5
"""For a coarse sensor, the next three of its values are near."""
EXCESS = 2.0
"""A clipped channel has more than so many times as many samples at the extreme value as near it.

The values of a sampled sine, which has the steepest distribution without clipping, have as many as the next three.
"""
FEWEST_EQUAL, NEIGHBOURS, TIES = 8, 16, 4.0
"""Or at least 8 samples at the extreme value, and more than 4 times as many as at any of the next 16 values.

This finds a clipped sine, which has many samples near its extreme value but at different values.
"""
NEXT, DEVIATIONS = 3, 4.0
"""Or as many as the mean of the next 3 values and 4 deviations more, if these are no more frequent than the 3 after.

This finds a clipped coarse sensor: where values become rarer towards the end of the range, the last one is the rarest.
"""
VALUE_SPAN = 3.3
"""Standard deviations between the quantiles that different values are counted between, for a normal distribution."""


def find_clipping(data: DataSummary) -> Iterator[Finding]:
    """Yield channels in which many samples have exactly the largest or smallest value and hardly any are near it."""
    for channel in data.each_live_channel():
        statistics = channel.summary.statistics
        sides = {
            side: extreme
            for side, extreme in (("upper", statistics.top), ("lower", statistics.bottom))
            if is_clipped(extreme, statistics)
        }
        if sides:
            count = sum(extreme.at_extreme for extreme in sides.values())
            values = " and ".join(f"{extreme.extreme:.4g}" for extreme in sides.values())
            one = channel.recording
            yield Finding(
                WARNING,
                f"{one.name}: {channel.name} is clipped at {values} ({count} samples, {count / one.samples:.2%})",
                "Clipping cuts off the impacts of a fault and adds harmonics that the machine does not have",
                "Record it again with a larger range, or leave the recording out",
                (one.name,),
                channel.name,
            )


def is_clipped(extreme: ExtremeValues, statistics: ChannelStatistics) -> bool:
    """Return whether samples pile up at an extreme value."""
    # One long run is a drop-out to a fill value, which has a check of its own.
    single_run = extreme.extreme == statistics.run.value and extreme.at_extreme < 2 * statistics.run.length
    if extreme.at_extreme < FEWEST or single_run:
        return False
    resolution = VALUE_SPAN * statistics.deviation / max(1, statistics.values)
    width = max(NEAR * abs(extreme.extreme - statistics.mean), NEAR_VALUES * resolution)
    near = float(extreme.counts[1:][np.abs(extreme.values[1:] - extreme.extreme) <= width].sum())
    # Few samples near it may be chance: two standard deviations more, by Poisson's law.
    if extreme.at_extreme > EXCESS * (near + 2 * np.sqrt(near)):
        return True
    if extreme.at_extreme < FEWEST_EQUAL:
        return False
    others = float(extreme.counts[1 : NEIGHBOURS + 1].max(initial=0))
    if extreme.at_extreme > TIES * (others + 2 * np.sqrt(others)):
        return True
    outer, inner = extreme.counts[1 : NEXT + 1], extreme.counts[NEXT + 1 : 2 * NEXT + 1]
    usual = float(outer.mean()) if len(outer) else 0.0
    rarer = len(inner) == NEXT and outer.sum() <= inner.sum()
    return bool(rarer and extreme.at_extreme > usual + DEVIATIONS * np.sqrt(usual))


CHECK = Check("channels that reach the end of their range", find_clipping)
