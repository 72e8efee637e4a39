"""Entries of a journal that a fault of the program makes impossible to process: they are left out, with the reason.

An entry that fails twice is left out, and the watch continues with the one after it. Once a later entry has been
processed, a command in the journal says so: every later run leaves out the same entries, so that the results still
depend on the journal alone. If one entry after the other fails, the fault is not in the entries: none of them is left
out, and the watch stops until the program is repaired.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cgsa.errors import DataError
from cgsa.live.commands import Command
from cgsa.live.processing import EntrySource
from cgsa.live.segments import Entry, JournalRecord, LostRecords, describe_positions
from cgsa.live.watch import COMMAND

MAX_IN_A_ROW = 3
"""Entries that may be left out one after the other."""
MAX_REASON = 500
"""Characters of a reason."""


@dataclass(frozen=True)
class SkippedEntry(LostRecords):
    """An entry that is left out."""

    def __str__(self) -> str:
        return f"{describe_positions(self.position, self.end)} skipped: {self.why}"


class SkippedEntries:
    """What is left out of one journal."""

    def __init__(self, journal: EntrySource) -> None:
        self._journal = journal
        self._known: dict[int, str] | None = None
        """Reasons by position, as the journal has them; None before it was read."""
        self._unconfirmed: dict[int, str] = {}
        """Further ones that the journal does not have yet."""
        self._failed: int | None = None
        """Position of an entry that has failed once."""

    def load(self, begin: int) -> None:
        """Read what earlier processes left out, unless that has been done."""
        if self._known is not None:
            return
        known: dict[int, str] = {}
        for entry in self._journal.read(max(begin, self._journal.begin)):
            if not isinstance(entry, JournalRecord) or entry.kind != COMMAND:
                continue
            try:
                command = Command.from_bytes(entry.payload)
                if command.name == "skip":
                    known[int(command.number("position"))] = command.text
            except (DataError, ValueError, OverflowError):
                continue  # The watch refuses it when it comes to it.
        self._known = known

    def substitute(self, entry: Entry) -> Entry:
        """Return what to process instead of an entry: itself, unless it is left out."""
        why = self._unconfirmed.get(entry.position) or (self._known or {}).get(entry.position)
        return entry if why is None else SkippedEntry(entry.position, entry.position + 1, why)

    def fail(self, entry: Entry, error: Exception) -> bool:
        """Note that an entry failed; return whether to go on, with it or without it."""
        position = entry.position
        if isinstance(entry, SkippedEntry) or len(self._unconfirmed) >= MAX_IN_A_ROW:
            return False
        if self._failed == position:
            self._unconfirmed[position] = f"{type(error).__name__}: {error}"[:MAX_REASON]
        self._failed = position
        return True

    def confirm(self, append: Callable[[Command], object]) -> None:
        """Write to the journal what was left out, now that a later entry has been processed."""
        for position, why in tuple(self._unconfirmed.items()):
            append(Command("skip", "service", why, {"position": position}))
            self._known = {**(self._known or {}), position: why}
            del self._unconfirmed[position]

    @property
    def unconfirmed(self) -> bool:
        """Whether the journal lacks an entry that was left out."""
        return bool(self._unconfirmed)
