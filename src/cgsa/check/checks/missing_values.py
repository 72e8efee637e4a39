"""Samples that are no numbers."""

from __future__ import annotations

from collections.abc import Iterator

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.finding import STOPS


def find_missing_values(data: DataSummary) -> Iterator[Finding]:
    """Yield every channel with NaN or infinite samples."""
    for one in data.readable:
        for name, channel in zip(one.channels, one.measured, strict=True):
            statistics = channel.statistics
            if statistics.first_missing is None:
                continue
            first = one.time(statistics.first_missing)
            yield Finding(
                STOPS,
                f"{one.name} has {statistics.missing} NaN or infinite samples in {name}, the first at {first:.4g} s",
                "One such sample makes the loss and all weights of a model NaN",
                "Cut the gap out, or record it as two files; filling it in would invent data",
                (one.name,),
                name,
                (first, first),
            )


CHECK = Check("NaN and infinite samples", find_missing_values, before_training=True)
