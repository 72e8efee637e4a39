"""One saved state as a file: a header that describes it and its tensors, each with a SHA-256.

::

    magic, version, length of the header, length of the tensors, SHA-256 of these and the header
    header   JSON: number, position, time, SHA-256 of the tensors, and what the caller says about the state
    tensors  as in a safetensors file

So listing states reads only their headers and still detects damaged ones.
SHA-256 takes 0.05 s for the 84 MB of the paper's student on a processor with
instructions for it and 0.2 s on one without; BLAKE2b takes 0.1 s on both. Either
is fast enough to roll back within a second, and model bundles use SHA-256, too.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from torch import Tensor

from cgsa.config import bind
from cgsa.errors import BundleError, ConfigError
from cgsa.nn import container

MAGIC = b"cgsaLIVE"
VERSION = 1
PREAMBLE = struct.Struct("<8sIIQ32s")
"""Magic, version, bytes of the header, bytes of the tensors, SHA-256 of these four and the header."""
DIGEST_BYTES = 32


@dataclass(frozen=True)
class SavedState:
    """Description of a state on the disk, without its tensors."""

    number: int
    """Increases from state to state."""
    position: int
    """Position of the first journal record that the state does not include."""
    time: float
    """When it was saved, in seconds, by the clock of the caller."""
    bytes: int
    """Size of its file."""
    sha256: str
    """Hash of the tensors: equal hashes mean bit-identical states."""
    about: Mapping[str, object]
    """What the caller stored with it."""


@dataclass(frozen=True, eq=False)
class RestoredState:
    """A state with its tensors, on the CPU."""

    saved: SavedState
    tensors: Mapping[str, Tensor]


def encode_state(
    number: int, position: int, tensors: Mapping[str, Tensor], about: Mapping[str, object], *, time: float, path: Path
) -> tuple[SavedState, container.Pieces]:
    """Return the description of a state and the pieces of its file, which share memory with the tensors."""
    if position < 0 or not math.isfinite(time):
        raise BundleError(f"a state at position {position} and time {time}; expected 0 or more, and a finite time")
    pieces = container.encode_tensors(tensors)
    about_it = {"number": number, "position": position, "time": time, "sha256": container.sha256_of(pieces)}
    header = container.encode_object({**about_it, "about": dict(about)}, "what is stored about a state")
    size = sum(map(len, pieces))
    if len(header) > container.MAX_HEADER_BYTES or size > container.MAX_TENSOR_BYTES:
        raise BundleError(
            f"a state with {size} bytes of tensors and a header of {len(header)} bytes; "
            f"at most {container.MAX_TENSOR_BYTES} and {container.MAX_HEADER_BYTES} are saved"
        )
    saved = _described(header, PREAMBLE.size + len(header) + size, path)
    return saved, (_preamble(header, size), header, *pieces)


def read_description(file: BinaryIO, path: Path, number: int) -> SavedState:
    """Return the description of a state; its header is checked, its tensors are not read."""
    return _read_header(file, path, number, os.fstat(file.fileno()).st_size)[0]


def read_state(file: BinaryIO, path: Path, number: int) -> RestoredState:
    """Read the state of a number, or say why it is refused."""
    return _read_whole(file, path, number, os.fstat(file.fileno()).st_size)


def decode_state(data: bytes, path: Path, number: int) -> RestoredState:
    """Return the state of a number from the contents of its file, or say why it is refused."""
    return _read_whole(io.BytesIO(data), path, number, len(data))


def _read_whole(file: BinaryIO, path: Path, number: int, there: int) -> RestoredState:
    saved, size = _read_header(file, path, number, there)
    data = container.read_exactly(file, size, path)
    if container.sha256_of([data]) != saved.sha256:
        raise BundleError(f"{path}: its tensors are damaged: their hash differs from that in the header")
    return RestoredState(saved, container.decode_tensors(data, path))


def _preamble(header: bytes, size: int) -> bytes:
    known = PREAMBLE.pack(MAGIC, VERSION, len(header), size, b"")[:-DIGEST_BYTES]
    return known + hashlib.sha256(known + header).digest()


def _read_header(file: BinaryIO, path: Path, number: int, there: int) -> tuple[SavedState, int]:
    """Return the description of a state and the size of its tensors; sizes are checked before anything is read."""
    raw = container.read_exactly(file, PREAMBLE.size, path)
    magic, version, header_bytes, size, digest = PREAMBLE.unpack(raw)
    if magic != MAGIC:
        raise BundleError(f"{path}: not a state of a watch")
    if version != VERSION:
        raise BundleError(f"{path}: state version {version}; this cgsa reads version {VERSION}")
    if header_bytes > container.MAX_HEADER_BYTES or size > container.MAX_TENSOR_BYTES:
        raise BundleError(
            f"{path}: declares {header_bytes} bytes of header and {size} of tensors; "
            f"at most {container.MAX_HEADER_BYTES} and {container.MAX_TENSOR_BYTES} are read"
        )
    expected = PREAMBLE.size + header_bytes + size
    if there != expected:
        raise BundleError(f"{path}: {there} bytes; expected {expected}: it was cut short or added to")
    header = container.read_exactly(file, header_bytes, path)
    if hashlib.sha256(raw[:-DIGEST_BYTES] + header).digest() != digest:
        raise BundleError(f"{path}: its header is damaged: its hash differs")
    saved = _described(header, expected, path)
    if saved.number != number:
        raise BundleError(f"{path}: holds state {saved.number}; it was renamed or copied")
    return saved, size


def _described(header: bytes, size: int, path: Path) -> SavedState:
    try:
        return bind(SavedState, {**container.parse_object(header, path), "bytes": size}, str(path))
    except (BundleError, ConfigError) as problem:
        raise BundleError(f"{path}: its header does not describe a state ({problem})") from problem
