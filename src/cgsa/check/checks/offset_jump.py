"""Sudden changes of the offset of a channel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.finding import WARNING
from cgsa.check.intervals import DoubleArray, IntervalLevels
from cgsa.check.siblings import far_above

PARTS = 32
SHORTEST_SIDE = 2
"""Intervals before and after a jump, at least."""
LEAST = 0.5
"""Jumps below this share of the level of the channel do not matter."""
CLEARNESS = 4.0
"""A jump is so many times as large as what is left of the course of the mean without it."""
DRIFTING = 0.7
"""A step leaves less than this share of what a straight line leaves; otherwise the mean drifts."""
LEVEL_CHANGE = 1.5


@dataclass(frozen=True)
class Jump:
    """The clearest step in the course of the mean."""

    size: float
    """In units of the level of the channel; 0 if no step stands out from the course."""
    sample: int


def find_offset_jumps(data: DataSummary) -> Iterator[Finding]:
    """Yield channels whose mean steps from one value to another, as it does in no sibling."""
    for name in data.channels:
        # Where the machine starts or its speed changes, the mean of a pulse per revolution changes, too.
        channels = [channel for channel in data.live_channels(name) if channel.recording.steady]
        jumps = [clearest_jump(channel.summary.levels) for channel in channels]
        for place in np.flatnonzero(far_above(np.array([jump.size for jump in jumps]), least=LEAST)):
            one, jump = channels[place].recording, jumps[place]
            second = one.time(jump.sample)
            yield Finding(
                WARNING,
                f"{one.name}: the mean of {name} jumps by {jump.size:.2g} times its level at about {second:.3g} s",
                "Something happened to the sensor, not to the machine: it was hit, came loose or its supply changed",
                "Cut the recording there, and check the mounting",
                (one.name,),
                name,
                (second, second),
            )


def clearest_jump(levels: IntervalLevels) -> Jump:
    """Return the step that explains most of the course of the mean."""
    course = levels.parts(PARTS)
    means, count = course.means, len(course.means)
    level = float(np.median(course.rms))
    if count < 4 * SHORTEST_SIDE or level == 0.0:
        return Jump(0.0, 0)
    total = np.cumsum(means)
    splits = np.arange(SHORTEST_SIDE, count - SHORTEST_SIDE + 1)
    before = total[splits - 1] / splits
    after = (total[-1] - total[splits - 1]) / (count - splits)
    # The split with the smallest sum of squares around both means.
    best = int(np.argmax((after - before) ** 2 * splits * (count - splits)))
    split, height = int(splits[best]), float(after[best] - before[best])
    remainder = np.concatenate([means[:split] - before[best], means[split:] - after[best]])
    # The interval that the jump divides has a mean between both.
    spread = float(np.sqrt(np.sort(remainder**2)[:-1].mean()))
    time = np.arange(count)
    drifting = float(np.std(means - np.polyval(np.polyfit(time, means, 1), time)))
    clear = abs(height) > CLEARNESS * spread and spread < DRIFTING * drifting
    clear = clear and _alike(course.rms[:split], course.rms[split:])
    return Jump(abs(height) / level if clear else 0.0, split * course.length)


def _alike(before: DoubleArray, after: DoubleArray) -> bool:
    """Return whether the level stays; if it changes, too, something happened to the machine, such as its start."""
    low, high = sorted((float(np.median(before)), float(np.median(after))))
    return high <= LEVEL_CHANGE * low


CHECK = Check("sudden changes of the offset", find_offset_jumps)
