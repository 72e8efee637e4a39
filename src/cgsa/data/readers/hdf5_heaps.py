"""A check that the HDF5 library lacks: it never returns from a damaged heap, where texts of any length are stored."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from cgsa.data.readers.damage import CURE, truncated
from cgsa.errors import DataError

SIGNATURE = b"GCOL\x01\0\0\0"
"""The signature of a heap with its version and three bytes of zero."""
HEADER_BYTES = 16


def check_heaps(path: Path) -> None:
    """Refuse a file with a heap whose objects do not follow one another up to its end.

    An object without a size would be its own successor, and the library would read it for ever.
    """
    size = path.stat().st_size
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        place = data.find(SIGNATURE)
        while place >= 0:
            end = place + _stated_size(data, place + 8)
            if end > size:
                raise truncated(path, "a heap of texts", place, end, size)
            at = place + HEADER_BYTES
            while at + HEADER_BYTES <= end:
                number, count = int.from_bytes(data[at : at + 2], "little"), _stated_size(data, at + 8)
                # Object 0 is the free space, whose size includes its header; the others are padded to 8 bytes.
                step = count if number == 0 else HEADER_BYTES + -(-count // 8) * 8
                if step < HEADER_BYTES or at + step > end:
                    raise DataError(f"{path}: the heap of texts at byte {place} is damaged at byte {at}; {CURE}")
                at += step
            place = data.find(SIGNATURE, place + 1)


def _stated_size(data: mmap.mmap, place: int) -> int:
    return int(struct.unpack("<Q", data[place : place + 8].ljust(8, b"\0"))[0])
