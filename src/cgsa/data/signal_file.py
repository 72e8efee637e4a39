"""What a file of signals states about itself, and its samples block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cgsa.data.recording import FloatArray, Recording
from cgsa.data.slow_series import SlowSeries
from cgsa.errors import DataError

BLOCK_SAMPLES = 65_536
"""Samples per channel in a block, unless asked otherwise."""
RATE_TOLERANCE = 1e-3
"""Two statements of a sample rate that differ by less, such as of a clock and of a data sheet, mean the same."""
Blocks: TypeAlias = Callable[[int], Iterator[FloatArray]]
"""Yields the samples of a file in blocks of at most so many samples, (channels, samples)."""
TextColumn: TypeAlias = npt.NDArray[np.object_]
"""The cells of a column of a table."""
Texts: TypeAlias = Callable[[Sequence[str]], Iterator[list[TextColumn]]]
"""Yields the cells of some columns of a table in blocks of rows, one array for each column."""


@dataclass(frozen=True, eq=False)
class SignalFile:
    """The header of a file of signals: everything but the samples, which :meth:`blocks` reads.

    What the file does not state is None; nothing is guessed.
    """

    path: Path
    format: str
    """Name of the reader, such as ``csv``."""
    channels: tuple[str, ...]
    """Names of the columns of numbers, without that of the time; ``column 1`` and so on if the file states none."""
    units: tuple[str | None, ...]
    """Unit of each channel in the spelling of :mod:`cgsa.data.units`."""
    sample_rate: float | None
    """In Hz."""
    samples: int
    """Number of samples per channel."""
    read: Blocks = field(repr=False)
    """Reads the samples; callers use :meth:`blocks`."""
    named: bool = True
    """Whether the file states the names of its channels."""
    conditions: tuple[str, ...] = ()
    """Channels that the file itself marks as operating conditions, as the native format does."""
    slow_series: Mapping[str, SlowSeries] = field(default_factory=dict)
    """Series of fewer values than the channels, and single numbers, which may be read as operating conditions."""
    rate_name: str | None = None
    """Name of the single number that states the sample rate; if it is read as a condition, it is no sample rate."""
    label: str | None = None
    """State of the machine, if the file states it."""
    array: str | None = None
    """Name of the array, group or record that was chosen, in formats that can hold several."""
    notes: tuple[str, ...] = ()
    """How the file was read and what is unusual in it: delimiter, decimal comma, jitter of the clock, gaps."""
    read_texts: Texts | None = field(default=None, repr=False)
    """Reads columns of any kind as text, in tables."""
    recording: Callable[[], Recording] | None = field(default=None, repr=False)
    """Reads the complete recording, in formats that state everything about it."""

    def __post_init__(self) -> None:
        repeated = sorted({name for name in self.channels if self.channels.count(name) > 1})
        if repeated:
            raise DataError(f"{self.path}: several channels are named {', '.join(map(repr, repeated))}; rename them")
        if not self.channels:
            raise DataError(f"{self.path}: holds no column of numbers")

    def without_rate(self) -> SignalFile:
        """Return the file without the sample rate that it seems to state."""
        notes = tuple(note for note in self.notes if not note.startswith("sample rate "))
        return replace(self, sample_rate=None, rate_name=None, notes=notes)

    @property
    def source(self) -> str:
        """Origin of the samples, for the leak check: every path to a file gives the same name."""
        path = str(self.path.resolve())
        return path if self.array is None else f"{path}#{self.array}"

    @property
    def why_without_rate(self) -> str:
        """What the file says about its missing sample rate, for messages: ``states no sample rate``, or its clock."""
        clock = [note for note in self.notes if note.startswith("time column")]
        return "; ".join(["states no sample rate", *clock])

    def blocks(self, samples: int = BLOCK_SAMPLES) -> Iterator[FloatArray]:
        """Yield all samples in order, (channels, at most ``samples``), in single precision.

        Memory holds a few blocks at a time, so that a file may be larger than the memory.
        """
        count = 0
        for block in self.read(samples):
            count += block.shape[1]
            yield block
        if count != self.samples:
            raise DataError(f"{self.path}: {count} samples read of {self.samples}; the file changed while it was read")

    def signal(self) -> FloatArray:
        """Return all samples, (channels, samples)."""
        signal = np.empty((len(self.channels), self.samples), np.float32)
        start = 0
        for block in self.blocks():
            signal[:, start : start + block.shape[1]] = block
            start += block.shape[1]
        return signal


def of_recording(path: Path, name: str, read: Callable[[], Recording], notes: tuple[str, ...] = ()) -> SignalFile:
    """Return the header of a recording that is complete, such as one of the native format.

    Its conditions follow the channels; one with the name of a channel is called ``condition:<name>``.
    """
    recording = read()
    names = tuple(f"condition:{name}" if name in recording.channels else name for name in recording.conditions)

    def blocks(samples: int) -> Iterator[FloatArray]:
        for start in range(0, recording.samples, samples):
            part = slice(start, start + samples)
            traces = [trace[part] for trace in recording.conditions.values()]
            yield np.vstack([recording.signal[:, part], *traces])

    return SignalFile(
        path=path,
        format=name,
        channels=(*recording.channels, *names),
        units=(*(unit or None for unit in recording.units), *(None for _ in names)),
        sample_rate=recording.sample_rate,
        samples=recording.samples,
        read=blocks,
        conditions=names,
        label=recording.label,
        notes=(*notes, *recording.notes),
        recording=lambda: recording,
    )
