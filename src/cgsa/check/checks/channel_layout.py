"""Channels, units and sample rates that differ from recording to recording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.finding import STOPS, WARNING
from cgsa.check.summary import RecordingSummary


def find_layout_differences(data: DataSummary) -> Iterator[Finding]:
    """Yield the recordings that differ from the majority."""
    for what, severity, value_of, why, fix in (
        (
            "channels",
            STOPS,
            lambda one: ", ".join(one.channels),
            "A model reads the same channels everywhere",
            "Name the channels alike, or leave out those that not all recordings have",
        ),
        (
            "a sample rate of",
            STOPS,
            lambda one: f"{one.sample_rate:g} Hz",
            "The same number of samples would mean another time, and all lines another frequency",
            "Resample these recordings to the rate of the others",
        ),
        (
            "units",
            WARNING,
            lambda one: ", ".join(one.units),
            "Levels in different units cannot be compared",
            "Convert these recordings to the units of the others",
        ),
    ):
        for value, usual, names in _minorities(data, value_of):
            found = f"{len(names)} recordings have {what} {value}; most have {usual}"
            yield Finding(severity, found, why, fix, names)


def _minorities(
    data: DataSummary, value_of: Callable[[RecordingSummary], str]
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield every unusual value with the usual one and the recordings that have it."""
    values = [value for value, _ in Counter(map(value_of, data.readable)).most_common()]
    for value in values[1:]:
        yield value, values[0], tuple(one.name for one in data.readable if value_of(one) == value)


CHECK = Check("different channels, units or rates", find_layout_differences, before_training=True)
