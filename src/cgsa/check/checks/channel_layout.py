"""Channels, units and sample rates that differ from recording to recording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.finding import STOPS, WARNING, FindingSeverity
from cgsa.check.summary import RecordingSummary


def find_layout_differences(data: DataSummary) -> Iterator[Finding]:
    """Yield the recordings that differ from the majority."""
    yield from _minorities(
        data,
        lambda one: ", ".join(one.channels),
        "channels",
        STOPS,
        "A model reads the same channels everywhere",
        "Name the channels alike, or leave out those that not all recordings have",
    )
    yield from _minorities(
        data,
        lambda one: f"{one.sample_rate:g} Hz",
        "a sample rate of",
        STOPS,
        "The same number of samples would mean another time, and all lines another frequency",
        "Resample these recordings to the rate of the others",
    )
    yield from _minorities(
        data,
        lambda one: ", ".join(one.units),
        "units",
        WARNING,
        "Levels in different units cannot be compared",
        "Convert these recordings to the units of the others",
    )


def _minorities(
    data: DataSummary,
    of: Callable[[RecordingSummary], str],
    what: str,
    severity: FindingSeverity,
    why: str,
    fix: str,
) -> Iterator[Finding]:
    usual = [value for value, _ in Counter(map(of, data.readable)).most_common()]
    for value in usual[1:]:
        names = tuple(one.name for one in data.readable if of(one) == value)
        yield Finding(severity, f"{len(names)} recordings have {what} {value}; most have {usual[0]}", why, fix, names)


CHECK = Check("different channels, units or rates", find_layout_differences, before_training=True)
