"""Readers: one module per file format, each of which turns a file into a Recording."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cgsa.data.recording import Recording
from cgsa.errors import DataError
from cgsa.registry import Registry

HEAD_BYTES = 4096
"""Bytes at the start of a file by which a reader recognises its format."""


@dataclass(frozen=True)
class Reader:
    """One file format."""

    suffixes: tuple[str, ...]
    """Suffixes of file names, in lower case and with the dot."""
    accepts: Callable[[bytes], bool]
    """Whether the first bytes of a file are of this format."""
    read: Callable[[Path], Recording]


READERS: Registry[Reader] = Registry(
    "reader", "cgsa.readers", {"csv": "cgsa.data.readers.csv:READER", "parquet": "cgsa.data.readers.parquet:READER"}
)


def read_recording(path: str | Path) -> Recording:
    """Return the recording in a file of any supported format.

    Raises
    ------
    DataError
        If the file does not exist, has an unknown format or is invalid.
    """
    path = Path(path)
    return _reader_of(path, _head(path)).read(path)


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
        raise DataError(f"{path} is empty (0 bytes); expected a recording")
    return head


def _reader_of(path: Path, head: bytes) -> Reader:
    """Choose by the suffix of the name, or by the content if the suffix is unknown."""
    readers = {name: READERS[name] for name in READERS}
    named = {name: reader for name, reader in readers.items() if path.suffix.lower() in reader.suffixes}
    for reader in (named or readers).values():
        if reader.accepts(head):
            return reader
    if named:
        raise DataError(f"{path}: named as {' or '.join(named)}, but its content is not")
    raise DataError(f"{path}: unknown format; supported: {', '.join(readers)}")


__all__ = ["READERS", "Reader", "read_recording"]
