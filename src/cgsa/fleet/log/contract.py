"""The contract of a replayable log, which takes the place of a machine's journal in a fleet.

A log holds the records of all machines. Those of one machine have increasing positions, which need not be consecutive:
other machines may have records in between. A record keeps its position for as long as it exists, whoever reads it and
however often. ``cgsa.fleet.log.checks`` holds the contract as runnable checks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from threading import Event
from typing import Self

from cgsa.fleet.failures import raise_unavailable
from cgsa.live.segments import JournalRecord

READ_SECONDS = 30.0
"""How long :meth:`ReplayableLog.read` waits for a record that is known to exist."""


class LogReader(ABC):
    """Receives the records of one machine in the background; one thread takes them.

    It keeps a limited number of records in memory, so that a machine that is slow costs its neighbours nothing. What
    fails is tried again until the reader is closed.
    """

    @abstractmethod
    def take(self) -> JournalRecord | None:
        """Return the next record; None if none has arrived."""

    @property
    @abstractmethod
    def waiting(self) -> int:
        """Number of records that have arrived and were not taken."""

    @abstractmethod
    def close(self) -> None:
        """Receive no more records."""


class ReplayableLog(ABC):
    """A log of the records of all machines; usable from any thread, and a context manager that closes it.

    What fails because the log cannot be reached raises :class:`~cgsa.errors.UnavailableError`, with an ``OSError`` as
    its cause.
    """

    @abstractmethod
    def append(self, machine: str, kind: str, payload: bytes, *, key: str) -> int:
        """Write a record and return its position once it is as durable as the log is set up to be.

        ``key`` identifies the record: after an error, appending it again with the same key creates no second one, and
        returns the position of the first, for as long as the log remembers keys.
        """

    @abstractmethod
    def reader(self, machine: str, begin: int, wake: Callable[[], None] = lambda: None) -> LogReader:
        """Return a reader of a machine's records from a position on; ``wake`` is called when one has arrived."""

    @abstractmethod
    def begin(self, machine: str) -> int:
        """Return the position from which on no record of a machine was trimmed; 0 if none ever was."""

    @abstractmethod
    def end(self, machine: str) -> int:
        """Return the position after the newest record of a machine; 0 before the first."""

    @abstractmethod
    def trim(self, machine: str, before: int) -> None:
        """Allow the log to remove a machine's records before a position; the newest record stays."""

    @abstractmethod
    def advance(self, position: int) -> None:
        """Give no record from now on a position before this one.

        A log that lost records in a power failure would otherwise assign their positions again, and whoever has a state
        from after them would take the new records for those that it knows.
        """

    @abstractmethod
    def report(self, reader: str, positions: Mapping[str, int]) -> None:
        """Publish up to which positions a shard has processed its machines, for the back-pressure of gateways.

        The log may keep the newest report of each reader alone.
        """

    @abstractmethod
    def processed(self) -> Mapping[str, int]:
        """Return the newest reported position of each machine; a position is that of the next record to process."""

    @abstractmethod
    def close(self) -> None:
        """End the connection."""

    def read(self, machine: str, begin: int) -> Iterator[JournalRecord]:
        """Yield the records of a machine from a position to the present end."""
        end = self.end(machine)
        if begin >= end:
            return
        arrived = Event()
        reader = self.reader(machine, begin, arrived.set)
        try:
            position = begin
            while position < end:
                arrived.clear()
                record = reader.take()
                if record is not None:
                    position = record.end
                    yield record
                elif not arrived.wait(READ_SECONDS):
                    missing = TimeoutError(0, f"no record after position {position} for {READ_SECONDS:g} s")
                    raise_unavailable(f"the log of {machine} cannot be read", missing)
        finally:
            reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
