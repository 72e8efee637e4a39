"""What an entry processor needs around it: the entries of a machine, its saved states, and a place for results.

The journal, its queue, the checkpoints and the result writer of a service have these methods, and so have those of a
fleet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from cgsa.events import Case
from cgsa.live.segments import Entry
from cgsa.live.state_file import RestoredState
from cgsa.live.watch import WatchResult


class EntrySource(Protocol):
    """All entries of a machine, by their positions."""

    @property
    def origin(self) -> int:
        """Position of the first entry ever."""

    @property
    def begin(self) -> int:
        """Position of the oldest entry."""

    @property
    def end(self) -> int:
        """Position after the newest entry."""

    def read(self, begin: int) -> Iterator[Entry]:
        """Yield the entries from a position to the present end."""

    def begin_of_another_model(self, saved: int) -> int:
        """Return where a watch begins whose model has changed; the newest state of the old one is at ``saved``."""

    def advance(self, position: int) -> None:
        """Continue at a later position if entries that a state includes are lost."""


class WaitingEntries(Protocol):
    """The entries that are to be processed next."""

    @property
    def position(self) -> int:
        """Position of the next entry."""

    def start_at(self, position: int) -> None:
        """Continue with the entry at a position."""

    def take(self) -> Entry | None:
        """Return the next entry, or None if none waits; it stays the next one until it is finished."""

    def finish(self, entry: Entry) -> None:
        """Go on to the entry after the one that was taken."""


class StateSource(Protocol):
    """Saved states of a machine."""

    def newest(self) -> RestoredState | None:
        """Return the newest state that passes its checks."""

    def take_notes(self) -> tuple[str, ...]:
        """Return messages about states that do not pass, each once."""


class ResultReceiver(Protocol):
    """Receives the results of a machine."""

    def write(self, entry: Entry, result: WatchResult) -> None:
        """Take over what an entry led to; if this raises, all of it can be written again."""

    def continued_numbers(self) -> tuple[int, Case | None]:
        """Return the number of the next batch and the newest case, for a watch that starts afresh."""
