"""Levels and offsets that change steadily during a recording."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.checks.offset_jump import clearest_jump
from cgsa.check.finding import WARNING
from cgsa.check.intervals import DoubleArray
from cgsa.check.siblings import far_above
from cgsa.check.summary import ChannelSummary

PARTS = 16
LEAST_LEVEL = 0.4
"""Natural logarithm of a change of the level that matters: 1.5 times."""
LEAST_MEAN = 0.5
"""Change of the mean that matters, as a share of the level."""
CLEARNESS = 4.0
"""A drift is so many times as large as what is left of the course without it."""


def find_drift(data: DataSummary) -> Iterator[Finding]:
    """Yield channels whose level or mean drifts, as in no sibling, while the conditions are steady."""
    for name in data.channels:
        channels = [channel for channel in data.live_channels(name) if channel.recording.steady]
        levels = np.array([level_drift(channel.summary) for channel in channels])
        means = np.array([mean_drift(channel.summary) for channel in channels])
        growing, moving = far_above(np.abs(levels), least=LEAST_LEVEL), far_above(np.abs(means), least=LEAST_MEAN)
        for place in np.flatnonzero(growing | moving):
            one = channels[place].recording
            found = (
                f"the level of {name} changes to {np.exp(levels[place]):.2g} times its first value"
                if growing[place]
                else f"the mean of {name} drifts by {abs(means[place]):.2g} times its level"
            )
            yield Finding(
                WARNING,
                f"{one.name}: {found} while the conditions are steady",
                "The machine was still warming up, or the sensor drifted; the start does not show the same state as "
                "the end",
                "Record it again once the machine has settled, or cut off the part that changes",
                (one.name,),
                name,
            )


def level_drift(channel: ChannelSummary) -> float:
    """Return the logarithm of the change of the level over the recording; 0 if it is no steady change."""
    rms = channel.levels.parts(PARTS).rms
    return steady_change(np.log(rms)) if len(rms) and rms.min() > 0 else 0.0


def mean_drift(channel: ChannelSummary) -> float:
    """Return the change of the mean over the recording in units of its level; 0 if it is a jump or no change."""
    if clearest_jump(channel.levels).size:
        return 0.0
    course = channel.levels.parts(PARTS)
    level = float(np.median(course.rms)) if len(course.rms) else 0.0
    return steady_change(course.means / level) if level else 0.0


def steady_change(values: DoubleArray) -> float:
    """Return the change along the line of Theil and Sen through values; 0 if they are no line."""
    if len(values) < PARTS // 2:
        return 0.0
    first, second = np.triu_indices(len(values), 1)
    slope = float(np.median((values[second] - values[first]) / (second - first)))
    change = slope * (len(values) - 1)
    spread = float(np.std(values - slope * np.arange(len(values))))
    return change if abs(change) > CLEARNESS * spread else 0.0


CHECK = Check("levels and offsets that drift", find_drift)
