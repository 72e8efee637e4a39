"""What the store needs of a database, whichever it is."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from cgsa.errors import DataError
from cgsa.live.store.dialect import Dialect
from cgsa.live.store.mapping import Statement
from cgsa.live.store.snapshot import Snapshot

Outcome: TypeAlias = int | Exception
"""How many rows the last statement of a job changed, or why the job was refused."""


class RefusedWriteError(DataError):
    """The content of a job does not fit the database; nothing of it is written."""


@dataclass(frozen=True, eq=False)
class WriteJob:
    """Statements that are executed together or not at all."""

    statements: tuple[Statement, ...]
    done: Future[int] | None = None
    """Receives the number of rows that the last statement changed, once it is on the disk; None if nobody waits."""
    then: str = ""
    """SQL that maintains the file afterwards; it may fail, since no row depends on it."""


class Database(Protocol):
    """A database that is open; one thread writes, any number read."""

    @property
    def where(self) -> str:
        """Path or address, for messages."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Files of the database, if they are this program's own."""

    @property
    def dialect(self) -> Dialect:
        """What is special in its SQL."""

    @property
    def errors(self) -> type[Exception]:
        """What reading may raise."""

    @property
    def longest_pause(self) -> int:
        """How many times as long as after the first failure to wait at most before a write is tried again."""

    @property
    def repairs(self) -> tuple[str, ...]:
        """What was repaired since the database was opened, and what is lost."""

    def write(self, jobs: Sequence[WriteJob]) -> list[Outcome]:
        """Write jobs in one transaction, which is on the disk then; a job that is refused changes nothing.

        An error means that nothing of the jobs is written, or that it is not known: they are written again.
        """

    def is_damage(self, error: BaseException) -> bool:
        """Return whether an error shows that the database is damaged."""

    def repair(self, damage: Exception) -> list[str]:
        """Replace a damaged database; return what is lost."""

    def reading(self) -> AbstractContextManager[Snapshot]:
        """Open a snapshot."""

    def maintaining(self) -> AbstractContextManager[bool]:
        """Return whether this process is the one that deletes and thins old rows now."""

    def end_reading(self) -> None:
        """Refuse new snapshots, and close what is not in use."""

    def close(self, *, clean: bool) -> None:
        """Close the database after the last write; ``clean`` if everything is written."""
