"""Samples that a recording holds twice: a block that a logger wrote again, or one sensor on two channels."""

from __future__ import annotations

from collections.abc import Iterator

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.finding import WARNING


def find_repeated(data: DataSummary) -> Iterator[Finding]:
    """Yield repeated blocks, and channels that are copies of each other."""
    told: set[tuple[int, int, int]] = set()
    for overlap in data.overlaps:
        first, second = overlap.first, overlap.second
        if first.recording != second.recording:
            continue
        one = data.readable[first.recording]
        names = one.channels[first.channel], one.channels[second.channel]
        seconds = one.time(first.begin), one.time(first.end)
        if first.channel != second.channel:
            yield Finding(
                WARNING,
                f"{one.name}: channels {names[0]} and {names[1]} have the same samples",
                "One of the two sensors was not recorded; the other counts twice",
                "Check the wiring and the channel list of the logger",
                (one.name,),
                names[1],
                seconds,
            )
        elif (key := (first.recording, first.begin, second.begin)) not in told:
            told.add(key)
            yield Finding(
                WARNING,
                f"{one.name} repeats about {seconds[1] - seconds[0]:.3g} s of {names[0]} "
                f"{one.time(second.begin - first.begin):.4g} s later",
                "The logger wrote old samples again, so that what the machine did meanwhile is missing",
                "Cut the repetition out, and check the buffer of the logger",
                (one.name,),
                names[0],
                seconds,
            )


CHECK = Check("samples that a recording holds twice", find_repeated, frozenset({"landmarks"}))
