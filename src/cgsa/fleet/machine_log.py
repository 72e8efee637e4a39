"""The log as one machine sees it: its records, and those of them that are to be processed next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

from cgsa.fleet.log.contract import LogReader, ReplayableLog
from cgsa.live.commands import Command
from cgsa.live.segments import Entry
from cgsa.live.watch import COMMAND


class MachineLog:
    """All records of one machine; it is to an entry processor what a journal is in a single service.

    A shadow reads the records of a machine from a position on, ``shadow_begin``, and writes none. Records from
    ``keep_from`` on are not removed.
    """

    def __init__(
        self, log: ReplayableLog, machine: str, *, shadow_begin: int | None = None, keep_from: int | None = None
    ) -> None:
        self._log, self._machine, self._shadow_begin, self._keep_from = log, machine, shadow_begin, keep_from

    @property
    def is_shadow(self) -> bool:
        """Whether the machine reads the records of another one."""
        return self._shadow_begin is not None

    @property
    def origin(self) -> int:
        """Position of the first record."""
        return self._shadow_begin or 0

    @property
    def begin(self) -> int:
        """Position from which on no record was trimmed; that of the first record if none ever was."""
        return max(self.origin, self._log.begin(self._machine))

    @property
    def end(self) -> int:
        """Position after the newest record."""
        return self._log.end(self._machine)

    def begin_of_another_model(self, saved: int) -> int:
        """Return where the old model ended: it was let go of before, with all that it had processed."""
        return saved

    def read(self, begin: int) -> Iterator[Entry]:
        """Yield the records from a position to the present end."""
        return self._log.read(self._machine, begin)

    def advance(self, position: int) -> None:
        """Give no record from now on a position before this one."""
        if not self.is_shadow and self.end < position:
            self._log.advance(position)

    def append(self, command: Command) -> None:
        """Write a command that nobody repeats."""
        if not self.is_shadow:
            self._log.append(self._machine, COMMAND, command.to_bytes(), key=uuid4().hex)

    def trim(self, before: int) -> None:
        """Allow the log to remove records before a position."""
        if not self.is_shadow:
            self._log.trim(self._machine, before if self._keep_from is None else min(before, self._keep_from))

    def reader(self, begin: int, wake: Callable[[], None]) -> LogReader:
        """Return a reader from a position on."""
        return self._log.reader(self._machine, begin, wake)


class LogQueue:
    """The records of one machine that are processed next, as they arrive from the log."""

    def __init__(self, log: MachineLog, wake: Callable[[], None]) -> None:
        self._log, self._wake = log, wake
        self._reader: LogReader | None = None
        self._taken: Entry | None = None
        """The record that was taken and is not finished."""
        self._position = 0

    @property
    def position(self) -> int:
        """Position of the next record."""
        return self._position

    @property
    def waiting(self) -> int:
        """Number of records that have arrived."""
        return 0 if self._reader is None else self._reader.waiting

    def start_at(self, position: int) -> None:
        """Continue with the record at a position."""
        self.close()
        self._taken, self._position = None, position
        self._reader = self._log.reader(position, self._wake)

    def take(self) -> Entry | None:
        """Return the next record, or None if none has arrived; it stays the next one until it is finished."""
        if self._taken is None and self._reader is not None:
            self._taken = self._reader.take()
        return self._taken

    def finish(self, entry: Entry) -> None:
        """Go on to the record after the one that was taken."""
        self._taken, self._position = None, entry.end

    def close(self) -> None:
        """Receive no more records."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
