"""From a file of any readable format to the blocks of its machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cgsa.data.readers import open_signal, read_recording
from cgsa.data.recording import Recording
from cgsa.errors import DataError
from cgsa.live.intake.block import MAX_HEADER_BYTES, MAX_SAMPLES, Block
from cgsa.live.segments import MAX_PAYLOAD_BYTES
from cgsa.nn.bundle import Manifest


@dataclass(frozen=True)
class FileFormat:
    """What is known of the files of a source beside what they state themselves."""

    channels: tuple[str, ...] | Mapping[str, str] = ()
    """Channels of the files in the order of the model, or ``{ name_in_file = "name_in_model" }``; by default they have
    the names of the model. Files without names have their columns in this order."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Units of channels of the model that the files do not state."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Columns with operating conditions, such as ``{ rpm = "speed" }``."""
    sample_rate: float | None = None
    """In Hz, of files that state none."""
    resample: bool = False
    """Whether to convert files of another rate to that of the model; otherwise they are refused."""
    array: str | None = None
    """The array, group or record to read, in files that hold several."""


def read_for_manifest(path: Path, layout: FileFormat, manifest: Manifest) -> Recording:
    """Return the recording in a file, with the channels of a model, converted to its units."""
    file = open_signal(path, array=layout.array)
    given = layout.channels or manifest.channels
    if len(given) != len(manifest.channels):
        raise DataError(f"channels: {', '.join(given)}; expected one per channel of {', '.join(manifest.channels)}")
    names = given if isinstance(given, Mapping) else dict(zip(given, manifest.channels, strict=True))
    needed = dict(zip(manifest.channels, manifest.units, strict=True))
    stated = dict(zip(file.channels, file.units, strict=True))
    # A unit that the file does not state is never assumed.
    units = {name: needed[name] for own, name in names.items() if stated.get(own) and needed.get(name)}
    recording = read_recording(
        path,
        sample_rate=layout.sample_rate if file.sample_rate is None else None,
        channels=names if file.named else tuple(names.values()),
        units={**layout.units, **units},
        conditions=layout.conditions,
        array=layout.array,
        resample_to=manifest.sample_rate if layout.resample else None,
    )
    return recording.select(manifest.channels)


def blocks_of(
    recording: Recording, machine: str, *, first: int, begin: float, seconds: float, conditions: tuple[str, ...]
) -> Iterator[Block]:
    """Yield a recording in blocks of at most so many seconds, numbered from ``first``, with its known conditions."""
    rate, length = recording.sample_rate, _block_length(recording, seconds)
    units = {name: unit for name, unit in zip(recording.channels, recording.units, strict=True) if unit}
    traces = {name: trace for name, trace in recording.conditions.items() if name in conditions}
    for number, start in enumerate(range(0, recording.samples, length), first):
        part = slice(start, start + length)
        samples = np.ascontiguousarray(recording.signal[:, part])
        known = {name: float(trace[part].mean(dtype=np.float64)) for name, trace in traces.items()}
        yield Block(machine, number, begin + start / rate, rate, recording.channels, samples, known, units)


def count_blocks(recording: Recording, seconds: float) -> int:
    """Return into how many blocks of so many seconds a recording is divided."""
    return -(-recording.samples // _block_length(recording, seconds))


def _block_length(recording: Recording, seconds: float) -> int:
    """Return the samples per channel of a block of so many seconds, as far as a block and the journal hold them."""
    most = min(MAX_SAMPLES, (MAX_PAYLOAD_BYTES - MAX_HEADER_BYTES) // (4 * len(recording.channels)))
    return max(1, min(most, round(seconds * recording.sample_rate)))
