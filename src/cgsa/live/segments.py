"""The files of a journal: records, the segments that hold them, and reading them back.

A record is a fixed-size head and a payload, each with a checksum. The head contains the
position, so a record that was copied elsewhere is rejected. Checksums detect accidents,
not forgeries: whoever may write to the folder may write anything.
"""

from __future__ import annotations

import re
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import TypeAlias

from cgsa.errors import DataError
from cgsa.live.intake.block import Block

MAX_PAYLOAD_BYTES = 16 * 2**20
MARKER = b"CGJ1"
"""Starts every record; its last character is the version of the format."""
HEAD = struct.Struct("<4s12sQIII")
"""Marker, kind, position, bytes of the payload, checksum of the payload, checksum of everything before it."""

_SEGMENT = re.compile(r"(\d{20})\.journal")


@dataclass(frozen=True)
class JournalRecord:
    """One input of a watch."""

    position: int
    """Its number since the journal began."""
    kind: str
    payload: bytes
    block: Block | None = field(default=None, compare=False, repr=False)
    """The decoded payload while it is in memory, so that a block is decoded once on its way."""

    @property
    def end(self) -> int:
        """The position after it."""
        return self.position + 1


@dataclass(frozen=True)
class LostRecords:
    """Positions whose records can no longer be read."""

    position: int
    """The first of them."""
    end: int
    """The position after the last of them."""
    why: str
    """What is damaged, and where."""

    def __str__(self) -> str:
        return f"{describe_positions(self.position, self.end)} lost: {self.why}"


Entry: TypeAlias = JournalRecord | LostRecords


@dataclass(frozen=True)
class RecordHead:
    """The head of a record whose checksum is right."""

    kind: str
    position: int
    length: int
    payload_checksum: int

    @classmethod
    def parse(cls, raw: bytes) -> RecordHead | None:
        """Read a head; return None if the bytes are not one."""
        if len(raw) < HEAD.size:
            return None
        marker, kind, position, length, payload_checksum, checksum = HEAD.unpack(raw)
        if marker != MARKER or checksum != zlib.crc32(raw[:-4]) or length > MAX_PAYLOAD_BYTES:
            return None
        return cls(kind.rstrip(b"\0").decode("ascii", "replace"), position, length, payload_checksum)


def pack_record(position: int, kind: str, payload: bytes) -> bytes:
    """Return the bytes of a record."""
    known = HEAD.pack(MARKER, kind.encode(), position, len(payload), zlib.crc32(payload), 0)[:-4]
    return b"".join((known, zlib.crc32(known).to_bytes(4, "little"), payload))


class SegmentReader:
    """Reads one segment and keeps its place, so that the journal knows where to append."""

    def __init__(self, path: Path, first: int, following: int | None = None) -> None:
        self.position = first
        """Position of the next record."""
        self.offset = 0
        """Byte at which the next record begins."""
        self.end_is_damaged = False
        self._path = path
        self._following = following
        """First position of the next segment, if there is one."""

    def entries(self) -> Iterator[Entry]:
        """Yield the entries up to the end of the file, or up to an incomplete record."""
        try:
            with self._path.open("rb") as file:
                while len(raw := file.read(HEAD.size)) == HEAD.size:
                    head = RecordHead.parse(raw)
                    if head is None or head.position != self.position:
                        file.seek(self.offset)
                        yield self._skip_damage(file.read())
                        file.seek(self.offset)
                        continue
                    payload = file.read(head.length)
                    if len(payload) < head.length:
                        return
                    begin = self.offset
                    self.offset += HEAD.size + head.length
                    self.position += 1
                    if zlib.crc32(payload) == head.payload_checksum:
                        yield JournalRecord(head.position, head.kind, payload)
                    else:
                        yield self._lost(head.position, begin)
        except FileNotFoundError:
            # Removed or lost; the first position of the next segment tells how much is missing.
            return
        except OSError as problem:
            raise DataError(
                f"{self._path}: cannot be read ({problem.strerror}); moved away, it would read as lost"
            ) from problem

    def _skip_damage(self, rest: bytes) -> LostRecords:
        """Find the next valid record behind a damaged head."""
        before, begin = self.position, self.offset
        at = rest.find(MARKER, 1)
        while at >= 0:
            head = RecordHead.parse(rest[at : at + HEAD.size])
            # The skipped bytes held at least one record, and not more than fit into them.
            if head and before < head.position <= before + at // HEAD.size:
                self.position, self.offset = head.position, begin + at
                return self._lost(before, begin)
            at = rest.find(MARKER, at + 1)
        self.end_is_damaged = True
        self.position, self.offset = before + len(rest) // HEAD.size, begin + len(rest)
        if self._following is not None:
            self.position = max(before, min(self.position, self._following))
        return LostRecords(
            before,
            self.position,
            f"{self._path} is damaged from byte {begin} to its end, which may have held this many records",
        )

    def _lost(self, position: int, begin: int) -> LostRecords:
        return LostRecords(position, self.position, f"{self._path} is damaged between bytes {begin} and {self.offset}")


def read_journal(folder: str | Path, begin: int | None = None) -> Iterator[Entry]:
    """Yield the entries of a journal from a position on, or from the oldest; another process may be writing it."""
    target = Path(folder)
    segments = list_segments(target)
    first = segments[0] if segments else 0
    wanted = first if begin is None else begin
    if wanted < first:
        raise DataError(f"{target}: begins at position {first}; position {wanted} is not there any more")
    return read_entries(target, wanted, None)


def read_entries(folder: Path, begin: int, end: int | None) -> Iterator[Entry]:
    """Yield the entries from ``begin`` on; if ``end`` is given, every position up to it is accounted for."""
    segments = list_segments(folder)
    segments = segments[max(0, bisect_right(segments, begin) - 1) :]
    wanted = begin
    for first, following in zip_longest(segments, segments[1:]):
        if first > wanted:
            yield LostRecords(wanted, first, f"{folder} does not contain them")
            wanted = first
        for entry in SegmentReader(segment_path(folder, first), first, following).entries():
            if end is not None and wanted >= end:
                return
            if entry.end <= wanted:
                continue
            yield entry if entry.position >= wanted else replace(entry, position=wanted)
            wanted = entry.end
    if end is not None and wanted < end:
        yield LostRecords(wanted, end, f"{folder} does not contain them")


def list_segments(folder: Path) -> list[int]:
    """Return the first positions of all segments, in order."""
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError as problem:
        raise DataError(f"{folder}: no journal can be read here ({problem.strerror})") from problem
    return sorted(int(match[1]) for match in map(_SEGMENT.fullmatch, names) if match)


def segment_path(folder: Path, first: int) -> Path:
    """Return the path of the segment that begins at a position."""
    return folder / f"{first:020d}.journal"


def describe_positions(begin: int, end: int) -> str:
    """Return the subject and verb of a sentence about records."""
    return f"record {begin} is" if end - begin == 1 else f"records {begin} to {end - 1} are"
