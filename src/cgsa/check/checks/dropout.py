"""Drop-outs: stretches in which a channel repeats one value."""

from __future__ import annotations

from collections.abc import Iterator
from math import log

import numpy as np

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.finding import WARNING
from cgsa.check.siblings import upper_fence
from cgsa.check.statistics import ChannelStatistics

SHORTEST = 8
"""Equal samples in a row that may be a drop-out."""
BEYOND_CHANCE = 3.0
"""A drop-out is so many times as long as the longest run that chance explains."""


def find_dropouts(data: DataSummary) -> Iterator[Finding]:
    """Yield runs of equal samples that are too long for their channel and for the same channel of its siblings."""
    for name in data.channels:
        channels = data.live_channels(name)
        usual = upper_fence(np.array([float(one.summary.statistics.run.length) for one in channels]))
        for channel in channels:
            statistics, one = channel.summary.statistics, channel.recording
            run = statistics.run
            limit = max(SHORTEST, BEYOND_CHANCE * longest_by_chance(statistics), usual if np.isfinite(usual) else 0.0)
            if run.length <= limit or _at_clipping_limit(statistics):
                continue
            begin, end = one.time(run.begin), one.time(run.begin + run.length)
            yield Finding(
                WARNING,
                f"{one.name}: {name} stays at {run.value:.4g} for {run.length} samples ({end - begin:.3g} s)",
                "The sensor or the logger delivered nothing there; a model would learn the gap as part of the class",
                "Cut the stretch out, and check cable and logger",
                (one.name,),
                name,
                (begin, end),
            )


def longest_by_chance(statistics: ChannelStatistics) -> float:
    """Return how long the longest run of equal samples is expected to be, apart from the longest one itself."""
    samples = max(2, statistics.samples)
    others = statistics.repeated * (samples - 1) - (statistics.run.length - 1)
    share = min(0.999, max(others, 1.0) / samples)
    return 1 + log(samples) / -log(share)


def _at_clipping_limit(statistics: ChannelStatistics) -> bool:
    """Return whether the run is one of many at an extreme value, which is clipping."""
    run = statistics.run
    return any(
        run.value == side.extreme and side.at_extreme >= 2 * run.length for side in (statistics.top, statistics.bottom)
    )


CHECK = Check("stretches in which a channel repeats one value", find_dropouts)
