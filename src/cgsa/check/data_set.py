"""The summaries of all recordings of a set, as the checks see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from cgsa.check.overlaps import Overlap, find_overlaps
from cgsa.check.recordings import LabelledRecording
from cgsa.check.summary import (
    ALL_MEASUREMENTS,
    ChannelSummary,
    Measurement,
    RecordingSummary,
    summarise_recording,
)


@dataclass(frozen=True)
class MeasuredChannel:
    """One channel of one recording."""

    recording: RecordingSummary
    name: str
    summary: ChannelSummary


@dataclass(frozen=True, eq=False)
class DataSummary:
    """What was measured of a set of recordings."""

    recordings: tuple[RecordingSummary, ...]

    @cached_property
    def readable(self) -> tuple[RecordingSummary, ...]:
        """The recordings that could be read."""
        return tuple(one for one in self.recordings if one.failure is None)

    @cached_property
    def channels(self) -> tuple[str, ...]:
        """Names of all channels, in the order of the recordings."""
        return tuple(dict.fromkeys(name for one in self.readable for name in one.channels))

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Names of all classes; recordings without one are not among them."""
        return tuple(sorted({one.label for one in self.readable if one.label}))

    @cached_property
    def points(self) -> tuple[str, ...]:
        """Names of all operating points, in the order of their conditions."""
        first = {one.point: tuple(sorted(one.conditions.items())) for one in reversed(self.readable)}
        return tuple(sorted(first, key=lambda point: (first[point], point)))

    @cached_property
    def overlaps(self) -> list[Overlap]:
        """Stretches of samples that stand in the set twice; needs landmarks."""
        return find_overlaps(self.readable)

    def live_channels(self, name: str) -> list[MeasuredChannel]:
        """Return a channel of all recordings in which it varies."""
        found = [(one, one.channel(name)) for one in self.readable]
        return [
            MeasuredChannel(one, name, channel)
            for one, channel in found
            if channel is not None and not channel.statistics.constant
        ]

    def each_live_channel(self) -> Iterator[MeasuredChannel]:
        """Yield every channel of every recording in which it varies."""
        for name in self.channels:
            yield from self.live_channels(name)


def summarise_data(
    recordings: Iterable[LabelledRecording],
    needs: frozenset[Measurement] = ALL_MEASUREMENTS,
    on_progress: Callable[[str], None] | None = None,
) -> DataSummary:
    """Read every recording once and measure it; only the summaries stay in memory."""
    found: list[RecordingSummary] = []
    for recording in recordings:
        found.append(summarise_recording(recording, needs))
        if on_progress is not None:
            on_progress(recording.name)
    return DataSummary(tuple(found))


def level_factors(recordings: Sequence[RecordingSummary]) -> list[list[str]]:
    """Return the names of class and operating point per recording: what a level is expected to depend on.

    A factor counts if its levels have three recordings each on average, since the median of two follows a fault in one.
    """
    factors = [[one.label for one in recordings], [one.point for one in recordings]]
    return [factor for factor in factors if 1 < len(set(factor)) <= len(factor) / 3]
