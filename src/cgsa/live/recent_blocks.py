"""The newest blocks of a machine by number and time: a block that is sent twice is no mistake of its sender."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from cgsa.errors import DataError
from cgsa.live.intake.block import Block
from cgsa.live.journal import Journal
from cgsa.live.segments import LostRecords

MAX_RECENT = 256
"""Blocks that are recognised; senders repeat what was not acknowledged to them, which is far less."""


class RecentBlocks:
    """Remembers the blocks of a journal; usable from any thread.

    After a restart, the blocks of earlier processes are read from the journal when they are first asked for.
    """

    def __init__(self, journal: Journal, kinds: frozenset[str]) -> None:
        self._journal, self._kinds = journal, kinds
        self._begin = journal.end
        """Entries before this position are from earlier processes."""
        self._known: OrderedDict[tuple[int, float], None] = OrderedDict()
        self._earlier: frozenset[tuple[int, float]] | None = None
        self._lock = Lock()

    def add(self, block: Block) -> None:
        """Remember a block that was added to the journal."""
        with self._lock:
            self._known[block.sequence, block.time] = None
            if len(self._known) > MAX_RECENT:
                self._known.popitem(last=False)

    def __contains__(self, block: object) -> bool:
        return isinstance(block, Block) and self.includes(block, earlier=True)

    def includes(self, block: Block, *, earlier: bool) -> bool:
        """Return whether a block is among those of this process, or also among those of ``earlier`` ones."""
        key = block.sequence, block.time
        with self._lock:
            if key in self._known or not earlier:
                return key in self._known
            if self._earlier is None:
                try:
                    self._earlier = frozenset(self._read())
                except DataError:
                    # Unreadable: a block that is sent twice is refused as late, and nothing else happens.
                    self._earlier = frozenset()
            return key in self._earlier

    def _read(self) -> set[tuple[int, float]]:
        found = set()
        for entry in self._journal.read(max(self._journal.begin, self._begin - MAX_RECENT)):
            if entry.position >= self._begin:
                break
            if isinstance(entry, LostRecords) or entry.kind not in self._kinds:
                continue
            try:
                block = Block.from_bytes(entry.payload)
            except DataError:
                # The watch notes a damaged block when it comes to it.
                continue
            found.add((block.sequence, block.time))
        return found
