"""The journal: everything that one machine's watch was ever told, in order, before the watch acts on it.

A journal is a folder of segments, files that bear the position of their first
record. A record is a head of fixed size and a payload, each with a check sum;
the position stands in the head, so that a record that was copied elsewhere is
not believed. Check sums find accidents, not forgers: who may write to the
folder may write anything.

What a process appended is in the hands of the operating system and outlives
the process, whatever kills it. What was synced outlives a power failure too.
Whoever acts on a record outside this machine, or counts on its position, syncs
first: until then a power failure may take it, and its position is given again.

Three things can be wrong with a file, and none of them stops the service:

- An append that was cut short was never acknowledged; opening cuts it off.
- A damaged record is lost, and those after it are not. Reading goes on behind
  it and gives a :class:`LostRecords` in its place, for a watch must know that samples
  are missing there.
- Where the end of the last segment is damaged, nobody knows how many records
  were lost. The bytes stay where they are, and the journal goes on in a new
  segment, behind the last position that they can have held.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self, TypeAlias

from cgsa.errors import ConfigError, DataError

SEGMENT_BYTES = 64 * 2**20
"""About 200 s of six channels at 12.8 kHz."""
MAX_PAYLOAD_BYTES = 16 * 2**20
LOCK = "lock"

MARKER = b"CGJ1"
"""Begins every record; its last letter is the version of the format."""
HEAD = struct.Struct("<4s12sQIII")
"""Marker, kind, position, bytes of the payload, check sum of the payload, check sum of all before it."""

_KIND = re.compile(r"[a-z][a-z_]{0,11}")
_SEGMENT = re.compile(r"(\d{20})\.journal")


@dataclass(frozen=True)
class JournalRecord:
    """One thing that a watch was told."""

    position: int
    """Its number since the beginning of time."""
    kind: str
    payload: bytes

    @property
    def end(self) -> int:
        """The position after it."""
        return self.position + 1


@dataclass(frozen=True)
class LostRecords:
    """Positions whose records cannot be read any more."""

    position: int
    """The first of them."""
    end: int
    """The position after the last of them."""
    why: str
    """What is wrong, and where."""

    def __str__(self) -> str:
        return f"{_span(self.position, self.end)} lost: {self.why}"


Entry: TypeAlias = JournalRecord | LostRecords


class Journal:
    """The journal of one machine, open for writing; a context whose end closes it.

    Threads may share it. A second process that opens it is refused, but may
    read it with :func:`read_journal`.

    Parameters
    ----------
    folder
        Where the journal is, or will be.
    segment_bytes
        A record that would make a file larger than this begins a new one.
    """

    def __init__(self, folder: str | Path, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        if segment_bytes < 1:
            raise ConfigError(f"segments of {segment_bytes} bytes; expected at least 1")
        self.folder = Path(folder)
        self._segment_bytes = segment_bytes
        self._mutex = Lock()
        self._notes: list[str] = []
        self._handle: int | None = None
        """Of the last segment; none where the next record begins a new one."""
        self._offset = 0
        self._ragged = False
        """Whether the last segment may hold bytes after its last whole record."""
        self._synced = 0
        # Whoever created the segments may have died before their names were on the disk.
        self._named = -1
        """The last segment whose name is on the disk."""
        self._lock: int | None = _lock(self.folder)
        try:
            self._segments = _segments(self.folder)
            self._end = self._open_last()
            self._synced = self.begin
        except BaseException:
            self.close()
            raise

    @property
    def begin(self) -> int:
        """Position of the oldest record that is still there."""
        return self._segments[0] if self._segments else self._end

    @property
    def end(self) -> int:
        """Position of the next record."""
        return self._end

    @property
    def synced(self) -> int:
        """All before this position outlives a power failure."""
        return self._synced

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know: what was cut off, what was lost, what is in doubt."""
        return tuple(self._notes)

    def append(self, kind: str, payload: bytes) -> int:
        """Write a record to its file at once and return its position; where that fails, the journal stays as it was."""
        if not _KIND.fullmatch(kind):
            raise DataError(f"record kind {kind!r}; expected at most 12 small letters and underscores, such as 'block'")
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise DataError(f"a record of {len(payload)} bytes; a journal takes at most {MAX_PAYLOAD_BYTES}")
        size = HEAD.size + len(payload)
        with self._mutex:
            self._check_open()
            try:
                handle = self._handle
                if handle is None or (self._offset and self._offset + size > self._segment_bytes):
                    handle = self._begin_segment()
                self._write(handle, _packed(self._end, kind, payload))
            except OSError as problem:
                raise DataError(
                    f"{self.folder}: record {self._end} cannot be written ({problem.strerror}); "
                    f"the journal is as it was before, and takes records again once it can"
                ) from problem
            return self._end - 1

    def sync(self) -> None:
        """Bring everything that was appended so far onto the disk; others may append meanwhile."""
        with self._mutex:
            self._check_open()
            end, last = self._end, self._last
            # A handle of its own: an append may close that of the segment while the disk works.
            handle = None if self._handle is None else os.dup(self._handle)
        try:
            self._flush(handle, end, last)
        finally:
            if handle is not None:
                os.close(handle)

    def read(self, begin: int) -> Iterator[Entry]:
        """Return the entries from a position to the present end, each next to the one before, without a hole."""
        end = self._end
        if not self.begin <= begin <= end:
            raise DataError(f"{self.folder}: holds positions {self.begin} to {end}; position {begin} is not there")
        return _entries(self.folder, begin, end)

    def forget(self, before: int) -> int:
        """Remove the segments that lie wholly before a position, such as that of the oldest state; return how many."""
        removed = 0
        with self._mutex:
            self._check_open()
            # From the oldest on: whatever stops it, no hole is left.
            while len(self._segments) > 1 and self._segments[1] <= before:
                path = _path(self.folder, self._segments[0])
                try:
                    path.unlink(missing_ok=True)
                except OSError as problem:
                    raise DataError(f"{path}: cannot be removed ({problem.strerror})") from problem
                del self._segments[0]
                removed += 1
        return removed

    def advance(self, position: int) -> None:
        """Go on at a later position, where somebody counts on positions that a power failure took from the journal.

        A state that was saved at position 100 must never meet another record
        99. What lies between reads as lost. It is on the disk with the next
        record; until then, whoever opens the journal asks for it again.
        """
        with self._mutex:
            self._check_open()
            if position <= self._end:
                return
            self._flush(self._handle, self._end, self._last)
            self._close_segment()
            self._notes.append(f"{self.folder}: {_span(self._end, position)} given up; goes on at {position}")
            self._end = position

    def close(self) -> None:
        """Let another process write; nothing is synced."""
        with self._mutex:
            self._close_segment()
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open_last(self) -> int:
        """Find the end of the last segment and return the next position."""
        if not self._segments:
            return 0
        path = _path(self.folder, self._last)
        walk = _Walk(path, self._last)
        self._notes += [str(entry) for entry in walk.entries() if isinstance(entry, LostRecords)]
        try:
            self._handle, self._offset = os.open(path, os.O_WRONLY), walk.offset
            size = os.fstat(self._handle).st_size
            if walk.end_is_damaged:
                os.fsync(self._handle)
                self._close_segment()
            elif size > walk.offset:
                self._ragged = True
                self._cut()
                self._notes.append(
                    f"{path}: record {walk.position} was cut short and never acknowledged; "
                    f"its {size - walk.offset} bytes were removed"
                )
        except OSError as problem:
            raise DataError(f"{path}: cannot be written ({problem.strerror})") from problem
        return walk.position

    @property
    def _last(self) -> int:
        """First position of the last segment."""
        return self._segments[-1] if self._segments else -1

    def _begin_segment(self) -> int:
        # A segment that is left behind is synced, so that sync has but the last to care for.
        self._flush(self._handle, self._end, self._last)
        fresh = os.open(_path(self.folder, self._end), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        self._close_segment()
        self._handle = fresh
        self._segments.append(self._end)
        return fresh

    def _close_segment(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
        self._handle, self._offset, self._ragged = None, 0, False

    def _write(self, handle: int, record: bytes) -> None:
        self._cut()
        self._ragged = True
        try:
            left, offset = memoryview(record), self._offset
            while left:
                written = os.pwrite(handle, left, offset)
                left, offset = left[written:], offset + written
            self._offset, self._end = offset, self._end + 1
            self._ragged = False
        finally:
            # Where even this fails, the next append begins with it.
            with suppress(OSError):
                self._cut()

    def _cut(self) -> None:
        """Remove what lies behind the last whole record."""
        if self._ragged and self._handle is not None:
            os.ftruncate(self._handle, self._offset)
            self._ragged = False

    def _flush(self, handle: int | None, end: int, last: int) -> None:
        """Sync the file behind a handle, and the name of the last segment, so that all before ``end`` is safe."""
        if self._synced >= end:
            return
        try:
            if handle is not None:
                os.fsync(handle)
            if self._named < last:
                _sync_folder(self.folder)
        except OSError as problem:
            # The system may tell of a failed write but once: a later sync that succeeds does not bring these back.
            doubt = f"{self.folder}: {_span(self._synced, end)} not safe from a power failure ({problem.strerror})"
            self._notes.append(doubt)
            raise DataError(f"{doubt}; the disk should be looked at") from problem
        self._named = max(self._named, last)
        self._synced = max(self._synced, end)

    def _check_open(self) -> None:
        if self._lock is None:
            raise DataError(f"{self.folder}: this journal was closed")


def read_journal(folder: str | Path, begin: int | None = None) -> Iterator[Entry]:
    """Return the entries of a journal that another process may be writing, from a position or the oldest on."""
    target = Path(folder)
    segments = _segments(target)
    first = segments[0] if segments else 0
    wanted = first if begin is None else begin
    if wanted < first:
        raise DataError(f"{target}: begins at position {first}; position {wanted} is not there any more")
    return _entries(target, wanted, None)


class _Walk:
    """Goes through one segment; keeps where it is, so that whoever opens the segment knows where to go on."""

    def __init__(self, path: Path, first: int, following: int | None = None) -> None:
        self.position = first
        """Of the next record."""
        self.offset = 0
        """Where it begins."""
        self.end_is_damaged = False
        self._path = path
        self._following = following
        """First position of the next segment, where there is one."""

    def entries(self) -> Iterator[Entry]:
        """Give the entries up to the end of the file, or to a record of which not all is there."""
        try:
            with self._path.open("rb") as file:
                while len(raw := file.read(HEAD.size)) == HEAD.size:
                    head = _parsed(raw)
                    if head is None or head.position != self.position:
                        file.seek(self.offset)
                        yield self._skip_to_next(file.read())
                        file.seek(self.offset)
                        continue
                    payload = file.read(head.length)
                    if len(payload) < head.length:
                        return
                    begin = self.offset
                    self.offset += HEAD.size + head.length
                    self.position += 1
                    if zlib.crc32(payload) == head.payload_sum:
                        yield JournalRecord(head.position, head.kind, payload)
                    else:
                        yield self._lost(head.position, begin)
        except FileNotFoundError:
            # Somebody forgot or lost it; the next segment's first position tells how much.
            return
        except OSError as problem:
            raise DataError(
                f"{self._path}: cannot be read ({problem.strerror}); moved away, it would read as lost"
            ) from problem

    def _skip_to_next(self, rest: bytes) -> LostRecords:
        """Find where records go on behind a head that cannot be believed."""
        before, begin = self.position, self.offset
        at = rest.find(MARKER, 1)
        while at >= 0:
            head = _parsed(rest[at : at + HEAD.size])
            # What was skipped held at least one record, and not more than fit into it.
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
            f"{self._path} is damaged from byte {begin} to its end, which may have held as many",
        )

    def _lost(self, position: int, begin: int) -> LostRecords:
        return LostRecords(position, self.position, f"{self._path} is damaged between bytes {begin} and {self.offset}")


@dataclass(frozen=True)
class _Head:
    kind: str
    position: int
    length: int
    payload_sum: int


def _packed(position: int, kind: str, payload: bytes) -> bytes:
    known = HEAD.pack(MARKER, kind.encode(), position, len(payload), zlib.crc32(payload), 0)[:-4]
    return b"".join((known, zlib.crc32(known).to_bytes(4, "little"), payload))


def _parsed(raw: bytes) -> _Head | None:
    """Return what a head says, or none where it cannot be one."""
    if len(raw) < HEAD.size:
        return None
    marker, kind, position, length, payload_sum, own_sum = HEAD.unpack(raw)
    if marker != MARKER or own_sum != zlib.crc32(raw[:-4]) or length > MAX_PAYLOAD_BYTES:
        return None
    return _Head(kind.rstrip(b"\0").decode("ascii", "replace"), position, length, payload_sum)


def _entries(folder: Path, begin: int, end: int | None) -> Iterator[Entry]:
    """Give what there is from ``begin`` on; up to ``end``, where it is known, every position is accounted for."""
    segments = _segments(folder)
    segments = segments[max(0, bisect_right(segments, begin) - 1) :]
    wanted = begin
    for first, following in zip_longest(segments, segments[1:]):
        if first > wanted:
            yield LostRecords(wanted, first, f"{folder} holds nothing of them")
            wanted = first
        for entry in _Walk(_path(folder, first), first, following).entries():
            if end is not None and wanted >= end:
                return
            if entry.end <= wanted:
                continue
            yield entry if entry.position >= wanted else replace(entry, position=wanted)
            wanted = entry.end
    if end is not None and wanted < end:
        yield LostRecords(wanted, end, f"{folder} holds nothing of them")


def _segments(folder: Path) -> list[int]:
    """Return the first positions of all segments, in order."""
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError as problem:
        raise DataError(f"{folder}: no journal can be read here ({problem.strerror})") from problem
    return sorted(int(match[1]) for match in map(_SEGMENT.fullmatch, names) if match)


def _path(folder: Path, first: int) -> Path:
    return folder / f"{first:020d}.journal"


def _lock(folder: Path) -> int:
    """Return a handle that keeps every other process from writing as long as it is open."""
    handle = None
    try:
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for place in missing:
            _sync_folder(place.parent)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        holder = "" if handle is None else os.read(handle, 20).decode("ascii", "replace")
        if handle is not None:
            os.close(handle)
        if isinstance(problem, BlockingIOError):
            raise DataError(
                f"{folder}: is being written by process {holder}; a journal has one writer at a time"
            ) from problem
        raise DataError(f"{folder}: no journal can be kept here ({problem.strerror})") from problem
    # The number is for people. Where the disk is too full for it, the lock still holds.
    with suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
    return handle


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _span(begin: int, end: int) -> str:
    return f"record {begin} is" if end - begin == 1 else f"records {begin} to {end - 1} are"
