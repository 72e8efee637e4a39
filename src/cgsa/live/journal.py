"""The journal: every input of one machine's watch, in order, written before the watch acts on it.

A journal is a folder of segments, files named after the position of their first record.

Appended records are in the hands of the operating system and survive the death of the
process, whatever kills it. Synced records survive a power failure, too. Sync before you
act on a record outside this machine or rely on its position: until then a power failure
may remove the record, and its position is assigned again.

Three kinds of damage can occur, and none of them stops the service:

- An append that was cut short was never acknowledged; opening the journal removes it.
- A damaged record is lost, but those after it are not. Reading continues behind it and
  yields :class:`LostRecords` in its place, so that the watch knows of the missing samples.
- If the end of the last segment is damaged, the number of lost records is unknown. The
  bytes stay where they are, and the journal continues in a new segment, after the last
  position that they can have held.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Self

from cgsa.errors import ConfigError, DataError
from cgsa.files import lock_file, sync_path
from cgsa.live.segments import (
    HEAD,
    MAX_PAYLOAD_BYTES,
    Entry,
    LostRecords,
    SegmentReader,
    describe_positions,
    list_segments,
    pack_record,
    read_entries,
    segment_path,
)

SEGMENT_BYTES = 64 * 2**20
"""About 200 s of six channels at 12.8 kHz."""
LOCK = "lock"

_KIND = re.compile(r"[a-z][a-z_]{0,11}")


class Journal:
    """The journal of one machine, open for writing; a context manager that closes it.

    Threads may share it. A second process cannot open it, but may read it with
    :func:`cgsa.live.segments.read_journal`.

    The folder is created if it does not exist. A record that would make a segment
    larger than ``segment_bytes`` starts a new one.
    """

    def __init__(self, folder: str | Path, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        if segment_bytes < 1:
            raise ConfigError(f"segments of {segment_bytes} bytes; expected at least 1")
        self.folder = Path(folder)
        self._segment_bytes = segment_bytes
        self._mutex = Lock()
        self._notes: list[str] = []
        self._handle: int | None = None
        """Handle of the last segment; None if the next record starts a new one."""
        self._offset = 0
        self._has_tail = False
        """Whether the last segment may hold bytes after its last complete record."""
        self._synced = 0
        # The process that created the segments may have died before their names were on the disk.
        self._named = -1
        """The last segment whose name is on the disk."""
        self._lock: int | None = _lock(self.folder)
        try:
            self._segments = list_segments(self.folder)
            self._end = self._open_last()
            self._synced = self.begin
        except BaseException:
            self.close()
            raise

    origin = 0
    """Position of the first record ever."""

    @property
    def begin(self) -> int:
        """Position of the oldest record that still exists."""
        return self._segments[0] if self._segments else self._end

    @property
    def end(self) -> int:
        """Position of the next record."""
        return self._end

    @property
    def synced(self) -> int:
        """Everything before this position survives a power failure."""
        return self._synced

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages for the operator: what was removed, lost or is in doubt."""
        return tuple(self._notes)

    def append(self, kind: str, payload: bytes) -> int:
        """Write a record to its file and return its position; on failure the journal is unchanged."""
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
                self._write(handle, pack_record(self._end, kind, payload))
            except OSError as problem:
                raise DataError(
                    f"{self.folder}: record {self._end} cannot be written ({problem.strerror}); "
                    f"the journal is unchanged and accepts records again once it can be written"
                ) from problem
            return self._end - 1

    def sync(self) -> None:
        """Flush everything appended so far to the disk; other threads may append meanwhile."""
        with self._mutex:
            self._check_open()
            end, last = self._end, self._last
            # A separate handle: an append may close the one of the segment while the disk is working.
            try:
                handle = None if self._handle is None else os.dup(self._handle)
            except OSError as problem:
                raise DataError(f"{self.folder}: cannot be synced ({problem.strerror})") from problem
        try:
            self._flush(handle, end, last)
        finally:
            if handle is not None:
                os.close(handle)

    def read(self, begin: int) -> Iterator[Entry]:
        """Yield the entries from a position to the current end, without gaps."""
        end = self._end
        if not self.begin <= begin <= end:
            raise DataError(f"{self.folder}: holds positions {self.begin} to {end}; position {begin} is not there")
        return read_entries(self.folder, begin, end)

    def forget(self, before: int, retire: Callable[[Path], None] | None = None) -> int:
        """Remove segments entirely before a position, such as that of the oldest state; return how many.

        ``retire`` may move the file of a segment away instead.
        """
        removed = 0
        with self._mutex:
            self._check_open()
            # Oldest first: an interruption leaves no gap.
            while len(self._segments) > 1 and self._segments[1] <= before:
                path = segment_path(self.folder, self._segments[0])
                try:
                    if retire is None:
                        path.unlink(missing_ok=True)
                    else:
                        retire(path)
                except OSError as problem:
                    raise DataError(f"{path}: cannot be removed ({problem.strerror})") from problem
                del self._segments[0]
                removed += 1
        return removed

    def begin_of_another_model(self, saved: int) -> int:
        """Return the end: a model may have changed long after its last state, and starts with the next blocks."""
        del saved
        return self._end

    def advance(self, position: int) -> None:
        """Continue at a later position if a power failure removed records that others rely on.

        A state saved at position 100 must never see a different record 99. The
        positions in between read as lost. The next record stores the advance on the
        disk; until then, it must be repeated after opening the journal.
        """
        with self._mutex:
            self._check_open()
            if position <= self._end:
                return
            self._flush(self._handle, self._end, self._last)
            self._close_segment()
            self._notes.append(
                f"{self.folder}: {describe_positions(self._end, position)} given up; continues at {position}"
            )
            self._end = position

    def close(self) -> None:
        """Close the journal without syncing; another process may write now."""
        with self._mutex:
            self._close_segment()
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open_last(self) -> int:
        """Find the end of the last segment and return the next position."""
        if not self._segments:
            return 0
        path = segment_path(self.folder, self._last)
        reader = SegmentReader(path, self._last)
        self._notes += [str(entry) for entry in reader.entries() if isinstance(entry, LostRecords)]
        try:
            self._handle, self._offset = os.open(path, os.O_WRONLY), reader.offset
            size = os.fstat(self._handle).st_size
            if reader.end_is_damaged:
                os.fsync(self._handle)
                self._close_segment()
            elif size > reader.offset:
                self._has_tail = True
                self._remove_tail()
                self._notes.append(
                    f"{path}: record {reader.position} was cut short and never acknowledged; "
                    f"its {size - reader.offset} bytes were removed"
                )
        except OSError as problem:
            raise DataError(f"{path}: cannot be written ({problem.strerror})") from problem
        return reader.position

    @property
    def _last(self) -> int:
        """First position of the last segment."""
        return self._segments[-1] if self._segments else -1

    def _begin_segment(self) -> int:
        # Each finished segment is synced, so that sync only has to flush the last one.
        self._flush(self._handle, self._end, self._last)
        fresh = os.open(segment_path(self.folder, self._end), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        self._close_segment()
        self._handle = fresh
        self._segments.append(self._end)
        return fresh

    def _close_segment(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
        self._handle, self._offset, self._has_tail = None, 0, False

    def _write(self, handle: int, record: bytes) -> None:
        self._remove_tail()
        self._has_tail = True
        try:
            left, offset = memoryview(record), self._offset
            while left:
                written = os.pwrite(handle, left, offset)
                left, offset = left[written:], offset + written
            self._offset, self._end = offset, self._end + 1
            self._has_tail = False
        finally:
            # If even this fails, the next append starts with it.
            with suppress(OSError):
                self._remove_tail()

    def _remove_tail(self) -> None:
        """Remove the bytes after the last complete record."""
        if self._has_tail and self._handle is not None:
            os.ftruncate(self._handle, self._offset)
            self._has_tail = False

    def _flush(self, handle: int | None, end: int, last: int) -> None:
        """Sync the file behind a handle and the name of the last segment, so that everything before ``end`` is safe."""
        if self._synced >= end:
            return
        try:
            if handle is not None:
                os.fsync(handle)
            if self._named < last:
                sync_path(self.folder)
        except OSError as problem:
            # The system may report a failed write only once: a later successful sync does not bring these back.
            records = describe_positions(self._synced, end)
            doubt = f"{self.folder}: {records} not safe from a power failure ({problem.strerror}); check the disk"
            self._notes.append(doubt)
            raise DataError(doubt) from problem
        self._named = max(self._named, last)
        self._synced = max(self._synced, end)

    def _check_open(self) -> None:
        if self._lock is None:
            raise DataError(f"{self.folder}: this journal was closed")


def _lock(folder: Path) -> int:
    """Return a handle that keeps other processes from writing while it is open."""
    try:
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for place in missing:
            sync_path(place.parent)
        return lock_file(folder / LOCK)
    except BlockingIOError as problem:
        raise DataError(
            f"{folder}: is being written by {problem.strerror}; a journal has one writer at a time"
        ) from problem
    except OSError as problem:
        raise DataError(f"{folder}: no journal can be kept here ({problem.strerror})") from problem
