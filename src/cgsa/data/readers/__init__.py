"""Readers: one module per file format, each of which says what a file holds and reads its samples.

:func:`open_signal` returns what a file states about itself and reads its samples block by block;
:func:`read_recording` adds what the caller knows and returns a Recording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cgsa.data.readers.selection import RecordingSelection
from cgsa.data.recording import Recording
from cgsa.data.resampling import resample
from cgsa.data.signal_file import SignalFile, of_recording
from cgsa.errors import DataError
from cgsa.registry import Registry

HEAD_BYTES = 4096
"""Bytes at the start of a file by which a reader recognises its format."""


@dataclass(frozen=True)
class Reader:
    """One file format; either ``read`` or ``open`` is given."""

    suffixes: tuple[str, ...]
    """Suffixes of file names, in lower case and with the dot."""
    accepts: Callable[[bytes], bool]
    """Whether the first bytes of a file are of this format."""
    read: Callable[[Path], Recording] | None = None
    """For formats whose files state everything about a recording."""
    open: Callable[[Path, str | None], SignalFile] | None = None
    """For all others: returns what a file holds, or its array of the given name."""


READERS: Registry[Reader] = Registry(
    "reader",
    "cgsa.readers",
    {
        "csv": "cgsa.data.readers.csv:READER",
        "flac": "cgsa.data.readers.flac:READER",
        "hdf5": "cgsa.data.readers.hdf5:READER",
        "mat": "cgsa.data.readers.mat:READER",
        "mdf4": "cgsa.data.readers.mdf4:READER",
        "npy": "cgsa.data.readers.numpy_files:NPY",
        "npz": "cgsa.data.readers.numpy_files:NPZ",
        "parquet": "cgsa.data.readers.parquet:READER",
        "tdms": "cgsa.data.readers.tdms:READER",
        "uff58": "cgsa.data.readers.uff58:READER",
        "wav": "cgsa.data.readers.wav:READER",
    },
)


def open_signal(path: str | Path, *, array: str | None = None) -> SignalFile:
    """Return what a file of any supported format holds; its samples are read when they are asked for.

    ``array`` names the array, group or record to read in a file that holds several.

    Raises
    ------
    DataError
        If the file does not exist, has an unknown format, is damaged, or holds several arrays of which none is named.
    """
    path = Path(path)
    name, reader = _reader_of(path, _head(path))
    if reader.open is not None:
        return reader.open(path, array)
    if reader.read is None:
        raise DataError(f"{path}: reader {name!r} defines neither read nor open")
    read = reader.read
    return of_recording(path, name, lambda: read(path))


def read_recording(
    path: str | Path,
    *,
    sample_rate: float | None = None,
    channels: Sequence[str] | Mapping[str, str] | None = None,
    units: str | Sequence[str] | Mapping[str, str] | None = None,
    conditions: Sequence[str] | Mapping[str, str] = (),
    array: str | None = None,
    resample_to: float | None = None,
) -> Recording:
    """Return the recording in a file of any supported format.

    Parameters
    ----------
    path
        The file; its content decides the format.
    sample_rate
        The rate in Hz, for a file that states none. A file that states another rate is refused.
    channels
        Names of the channels to read, in this order, or a mapping from names in the file to new names; by default all
        that are no conditions. If the file states no names, one name per column.
    units
        Unit of each channel: one for all, one per channel, or a mapping from names (new ones) to units. It is the unit
        of a channel whose unit the file does not state; any other channel is converted to it, with a note. A mapping
        may also name conditions.
    conditions
        Names of the channels that are operating conditions, such as the speed, or a mapping to the names they get.
    array
        The array, group or record to read in a file that holds several.
    resample_to
        The rate in Hz to convert the recording to, with a note; by default it keeps its own.

    Raises
    ------
    DataError
        If the file does not exist, has an unknown format or is invalid, or if neither the file nor the caller states
        the sample rate or a unit.
    """
    selection = RecordingSelection(sample_rate, channels, units, conditions)
    recording = selection.recording(open_signal(path, array=array))
    return recording if resample_to is None else resample(recording, resample_to)


def _head(path: Path) -> bytes:
    if path.is_dir():
        raise DataError(f"{path} is a folder; expected a file")
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except OSError as error:
        raise DataError(f"{path}: cannot read it: {error.strerror or error}") from error
    if not head:
        raise DataError(f"{path} is empty (0 bytes); copy or download it again")
    return head


def _reader_of(path: Path, head: bytes) -> tuple[str, Reader]:
    """Choose by the content; a known suffix of the name must agree with it."""
    readers = {name: READERS[name] for name in READERS}
    named = {name: reader for name, reader in readers.items() if path.suffix.lower() in reader.suffixes}
    for name, reader in (named or readers).items():
        if reader.accepts(head):
            return name, reader
    if named:
        others = [name for name, reader in readers.items() if reader.accepts(head)]
        hint = f" (it is {' or '.join(others)}: rename the file)" if others else "; it is damaged or misnamed"
        raise DataError(f"{path}: named as {' or '.join(named)}, but its content is not{hint}")
    raise DataError(f"{path}: unknown format; supported: {', '.join(readers)}")


__all__ = ["READERS", "Reader", "SignalFile", "open_signal", "read_recording"]
