"""Channels without a signal."""

from __future__ import annotations

from collections.abc import Iterator

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.finding import STOPS, WARNING


def find_dead_channels(data: DataSummary) -> Iterator[Finding]:
    """Yield recordings in which nothing moves, and single channels that are constant."""
    for one in data.readable:
        dead = [name for name, channel in zip(one.channels, one.measured, strict=True) if channel.statistics.constant]
        if len(dead) == len(one.channels):
            yield Finding(
                STOPS,
                f"{one.name} is constant in all channels",
                f"It holds no signal, but would be learnt as an example of class {one.label or 'none'}",
                "Take the recording out, and check the sensors and the logger",
                (one.name,),
            )
            continue
        for name in dead:
            value = one.measured[one.channels.index(name)].statistics.top.extreme
            yield Finding(
                WARNING,
                f"{one.name}: channel {name} is {value:g} throughout",
                "A model can recognise the class of this recording by its dead channel instead of by the fault",
                "Check sensor and cable; train without this channel, or without this recording",
                (one.name,),
                name,
            )


CHECK = Check("channels that are constant or all zero", find_dead_channels, before_training=True)
