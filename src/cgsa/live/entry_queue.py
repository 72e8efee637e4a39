"""Hands the entries of a journal to the thread that processes them: from memory while few wait, else from the disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from threading import Lock

from cgsa.live.intake.block import Block
from cgsa.live.journal import Journal
from cgsa.live.segments import Entry, JournalRecord

MAX_QUEUED = 256
"""Entries that wait in memory; further ones wait in the journal alone."""


class EntryQueue:
    """The entries of a journal from a position on; any thread may append, one thread takes.

    ``wake`` is called when there is a new entry.
    """

    def __init__(self, journal: Journal, wake: Callable[[], None] | None = None) -> None:
        self._journal, self._wake = journal, wake
        self._lock = Lock()
        self._queued: deque[Entry] = deque()
        self._reading: Iterator[Entry] | None = None
        self._position = journal.end
        self._reads_journal = False
        """Whether entries wait that are in the journal alone."""
        self.catching_up = False
        """Whether the entries that wait were there before the processing began."""

    @property
    def position(self) -> int:
        """Position of the next entry to process."""
        return self._position

    @property
    def waiting(self) -> int:
        """Number of entries that wait to be processed."""
        return self._journal.end - self._position

    def start_at(self, position: int) -> None:
        """Continue with the entry at a position."""
        with self._lock:
            self._queued.clear()
            self._reading = None
            self._position = position
            self._reads_journal = self.catching_up = position < self._journal.end

    def append(self, kind: str, payload: bytes, block: Block | None = None) -> int:
        """Write a record to the journal and return its position."""
        with self._lock:
            position = self._journal.append(kind, payload)
            if not self._reads_journal:
                self._queued.append(JournalRecord(position, kind, payload, block))
                self._reads_journal = len(self._queued) > MAX_QUEUED
        if self._wake is not None:
            self._wake()
        return position

    def take(self) -> Entry | None:
        """Return the next entry, or None if none waits; it stays the next one until it is finished."""
        with self._lock:
            if self._queued and not self._reads_journal:
                return self._queued.popleft()
            if self._position == self._journal.end:
                self._reads_journal = self.catching_up = False
                self._reading = None
                return None
        try:
            if self._reading is None:
                self._queued.clear()
                self._reading = self._journal.read(self._position)
            entry = next(self._reading, None)
        except BaseException:
            # What failed cannot be continued; the next call reads anew.
            self._reading = None
            raise
        if entry is None:
            # More entries have come since the reading began.
            self._reading = None
            return self.take()
        return entry

    def finish(self, entry: Entry) -> None:
        """Go on to the entry after the one that was taken."""
        self._position = entry.end
