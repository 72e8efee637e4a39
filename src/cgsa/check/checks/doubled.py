"""Recordings that share samples: whole copies, shifted, cut or scaled ones."""

from __future__ import annotations

from collections.abc import Iterator

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.finding import STOPS, WARNING
from cgsa.check.overlaps import Overlap
from cgsa.check.summary import RecordingSummary

EQUAL_SCALE = 0.001
"""Scales that differ from 1 by less are the same within rounding."""


def find_doubled(data: DataSummary) -> Iterator[Finding]:
    """Yield every pair of recordings with common samples, once, with its first common channel."""
    for overlap in overlapping_pairs(data):
        first, second = (data.readable[stretch.recording] for stretch in (overlap.first, overlap.second))
        if first.label == second.label:
            yield Finding(
                WARNING,
                describe_overlap(data, overlap),
                "They count twice, and held out in turn, each is predicted from its copy: the accuracy is too high",
                "Keep one of them",
                (first.name, second.name),
                *place_of_overlap(first, overlap),
            )
        else:
            yield Finding(
                STOPS,
                f"{describe_overlap(data, overlap)}, under the classes {first.label!r} and {second.label!r}",
                "The same signal cannot be both; a model can only learn by heart which is which",
                "Find out which class it belongs to, and delete the other",
                (first.name, second.name),
                *place_of_overlap(first, overlap),
            )


def overlapping_pairs(data: DataSummary) -> Iterator[Overlap]:
    """Yield the longest overlap of every two recordings."""
    pairs: dict[tuple[int, int], Overlap] = {}
    for overlap in sorted(data.overlaps, key=lambda one: one.first.begin - one.first.end):
        pair = tuple(sorted((overlap.first.recording, overlap.second.recording)))
        if pair[0] != pair[1]:
            pairs.setdefault((pair[0], pair[1]), overlap)
    yield from pairs.values()


def describe_overlap(data: DataSummary, overlap: Overlap) -> str:
    """Return in words which samples two recordings share, and how they differ."""
    first, second = (data.readable[stretch.recording] for stretch in (overlap.first, overlap.second))
    seconds = first.time(overlap.first.end - overlap.first.begin)
    shift = second.time(overlap.second.begin - overlap.first.begin)
    places = f"about {seconds:.3g} of {first.seconds:.3g} s"
    moved = "" if not shift else f", {abs(shift):.4g} s {'later' if shift > 0 else 'earlier'} in the second"
    channels = first.channels[overlap.first.channel], second.channels[overlap.second.channel]
    crossed = "" if channels[0] == channels[1] else f", as {channels[0]} and as {channels[1]}"
    scaled = "" if abs(overlap.scale - 1) < EQUAL_SCALE else f", multiplied by {overlap.scale:.4g}"
    return f"{first.name} and {second.name} have the same samples ({places}{moved}{crossed}{scaled})"


def place_of_overlap(first: RecordingSummary, overlap: Overlap) -> tuple[str, tuple[float, float]]:
    """Return channel and seconds of an overlap within its first recording."""
    stretch = overlap.first
    return first.channels[stretch.channel], (first.time(stretch.begin), first.time(stretch.end))


CHECK = Check("recordings that share samples", find_doubled, frozenset({"landmarks"}), before_training=True)
