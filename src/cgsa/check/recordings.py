"""Recordings with what is known about them: what a check of the data reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cgsa.data.recording import FloatArray, Recording
from cgsa.data.windows import Segment

BLOCK = 1 << 18
"""Samples that are examined at a time; a recording may be larger than memory."""


@dataclass(frozen=True, eq=False)
class LabelledRecording:
    """A recording that is read when it is needed, with its class and the circumstances of its measurement."""

    name: str
    """By which people know it, such as the name of its file."""
    parts: Callable[[], Iterable[Recording]]
    """Reads the recording: successive parts of it, so that a file larger than memory need not be read at once."""
    label: str | None = None
    conditions: Mapping[str, float] | None = None
    """Operating conditions that were set; None to take the means of the recorded traces."""
    point: str | None = None
    """Name of everything that was set for this measurement; None to form it from the conditions."""
    unit: str | None = None
    """Assembly that was recorded."""
    session: str | None = None
    """Occasion of the measurement, such as its day."""
    split: str | None = None
    """``train``, ``test`` or another part of the data that must not share samples with the others."""

    def blocks(self) -> Iterator[FloatArray]:
        """Yield successive samples of all channels, (channels, up to BLOCK)."""
        for part in self.parts():
            yield from cut_blocks(part)


def cut_blocks(part: Recording) -> Iterator[FloatArray]:
    """Yield the samples of a part in blocks, (channels, up to BLOCK)."""
    for begin in range(0, part.samples, BLOCK):
        yield part.signal[:, begin : begin + BLOCK]


def in_memory(recording: Recording, name: str | None = None) -> LabelledRecording:
    """Return a recording that is in memory, with the label that it states."""
    return LabelledRecording(name or Path(recording.source).name, lambda: (recording,), recording.label)


def of_segments(segments: Sequence[Segment], classes: Sequence[str]) -> list[LabelledRecording]:
    """Return the segments that a scenario cut out of its recordings."""
    return [_of_segment(segment, classes[segment.label]) for segment in segments]


def _of_segment(segment: Segment, label: str) -> LabelledRecording:
    recording = segment.recording
    name = Path(recording.source).name
    if recording.offset:
        name += f" from {recording.offset / recording.sample_rate:.4g} s"
    return LabelledRecording(name, lambda: (recording,), label)
