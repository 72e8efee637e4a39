"""The blocks of an MDF4 file: headers, links, texts, and the bytes of data blocks in order."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from cgsa.data.readers.damage import CURE, truncated
from cgsa.errors import DataError

HEADER_BYTES = 24
MAX_TEXT = 1 << 20
MAX_LINKS = 1 << 20
CHUNK_BYTES = 1 << 20
MAX_RATIO = 1100
"""Deflate packs at most so many bytes into one."""


class MdfBlock(NamedTuple):
    """A block without its links' targets."""

    kind: str
    links: tuple[int, ...]
    begin: int
    """First byte after the links."""
    size: int
    """Bytes after the links."""


class BlockFile:
    """Reads blocks; every place and size is compared with the size of the file first."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.size = path.stat().st_size
        self._file = file

    def block(self, place: int, *kinds: str) -> MdfBlock:
        """Return the block at a byte, which is one of the given kinds."""
        head = self.read(place, HEADER_BYTES, f"a block {' or '.join(kinds)}")
        kind = head[2:4].decode("latin-1")
        length, count = struct.unpack("<QQ", head[8:])
        if head[:2] != b"##" or kind not in kinds:
            raise DataError(f"{self.path}: byte {place} should begin a block {' or '.join(kinds)}; {CURE}")
        if place + length > self.size:
            raise truncated(self.path, f"block {kind}", place, place + length, self.size)
        if HEADER_BYTES + 8 * count > length or count > MAX_LINKS:
            raise DataError(f"{self.path}: block {kind} at byte {place} states {count} links in {length} bytes; {CURE}")
        links = struct.unpack(f"<{count}Q", self.read(place + HEADER_BYTES, 8 * count, "links"))
        begin = place + HEADER_BYTES + 8 * count
        return MdfBlock(kind, links, begin, place + length - begin)

    def chain(self, place: int, kind: str) -> Iterator[MdfBlock]:
        """Yield the blocks of a list that is linked by first links."""
        seen: set[int] = set()
        while place:
            if place in seen:
                raise DataError(f"{self.path}: the list of blocks {kind} runs in a circle at byte {place}; {CURE}")
            seen.add(place)
            block = self.block(place, kind)
            yield block
            place = self.link(block, 0)

    def link(self, block: MdfBlock, number: int) -> int:
        """Return the target of a link; 0 if there is none."""
        if number >= len(block.links):
            raise DataError(
                f"{self.path}: block {block.kind} before byte {block.begin} lacks link {number + 1}; {CURE}"
            )
        return block.links[number]

    def read(self, place: int, count: int, what: str) -> bytes:
        """Return bytes of the file."""
        if place + count > self.size:
            raise truncated(self.path, what, place, place + count, self.size)
        self._file.seek(place)
        return self._file.read(count)

    def fields(self, block: MdfBlock, layout: str) -> tuple[int | float, ...]:
        """Return the fields at the start of a block's data."""
        count = struct.calcsize(layout)
        if count > block.size:
            raise DataError(
                f"{self.path}: block {block.kind} at byte {block.begin} has only {block.size} bytes; {CURE}"
            )
        return struct.unpack(layout, self.read(block.begin, count, f"block {block.kind}"))

    def text(self, place: int) -> str:
        """Return a text, or the text within a comment in XML; empty if there is none."""
        if not place:
            return ""
        block = self.block(place, "TX", "MD")
        raw = self.read(block.begin, min(block.size, MAX_TEXT), "a text").partition(b"\0")[0].decode("utf-8", "replace")
        found = re.search(r"<TX[^>]*>(.*?)</TX>", raw, re.DOTALL) if block.kind == "MD" else None
        return (found[1] if found else "" if block.kind == "MD" else raw).strip()

    def data(self, place: int) -> Iterator[bytes]:
        """Yield the bytes of a data block, or of the list of data blocks that begins here."""
        if not place:
            return
        block = self.block(place, "DT", "DZ", "DL", "HL", "DV")
        if block.kind == "HL":
            place = self.link(block, 0)
            block = self.block(place, "DL")
        if block.kind != "DL":
            yield from self._bytes(place)
            return
        for part in self.chain(place, "DL"):
            for target in part.links[1:]:
                yield from self._bytes(target)

    def _bytes(self, place: int) -> Iterator[bytes]:
        block = self.block(place, "DT", "DZ", "DV")
        if block.kind == "DV":
            raise DataError(f"{self.path}: its data is stored by columns (MDF 4.2); save it as MDF 4.1")
        if block.kind == "DT":
            for begin in range(0, block.size, CHUNK_BYTES):
                yield self.read(block.begin + begin, min(CHUNK_BYTES, block.size - begin), "data")
            return
        _, method, _, columns, whole, packed = self.fields(block, "<2sBBIQQ")
        if packed != block.size - 24 or whole > MAX_RATIO * int(packed) or method not in {0, 1}:
            raise DataError(f"{self.path}: the packed data at byte {place} contradicts its sizes; {CURE}")
        unpack = zlib.decompressobj()
        raw = unpack.decompress(self.read(block.begin + 24, int(packed), "packed data"), int(whole) + 1)
        if len(raw) != whole or not unpack.eof:
            raise DataError(f"{self.path}: the packed data at byte {place} has another length than stated; {CURE}")
        yield _transposed(raw, int(columns)) if method == 1 else raw


def _transposed(raw: bytes, columns: int) -> bytes:
    """Undo the transposition of records; bytes that fill no record follow unchanged."""
    rows = len(raw) // columns if columns else 0
    table = b"".join(raw[row : rows * columns : rows] for row in range(rows)) if rows else b""
    return table + raw[rows * columns :]
