"""Samples on both sides of a split."""

from __future__ import annotations

from collections.abc import Iterator

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.checks.doubled import describe_overlap, overlapping_pairs, place_of_overlap
from cgsa.check.finding import STOPS


def find_leakage(data: DataSummary) -> Iterator[Finding]:
    """Yield every pair of recordings of different splits with common samples."""
    for overlap in overlapping_pairs(data):
        first, second = (data.readable[stretch.recording] for stretch in (overlap.first, overlap.second))
        splits = first.recording.split, second.recording.split
        if None not in splits and splits[0] != splits[1]:
            yield Finding(
                STOPS,
                f"{describe_overlap(data, overlap)}, in the splits {splits[0]!r} and {splits[1]!r}",
                "A model is tested on what it was trained on, so that its accuracy there says nothing",
                f"Take one of them out, or move both into {splits[0]!r}",
                (first.name, second.name),
                *place_of_overlap(first, overlap),
            )


CHECK = Check("splits that share samples", find_leakage, frozenset({"landmarks"}), before_training=True)
