"""The store of a fleet in an SQLite file that another process has open: reads the file, and has that process write."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeAlias

from cgsa.live.store import Snapshot
from cgsa.live.store.database import Outcome, WriteJob
from cgsa.live.store.dialect import SqliteDialect
from cgsa.live.store.mapping import Statement
from cgsa.live.store.store import read_store

WriteEach: TypeAlias = Callable[[Sequence[Sequence[Statement]]], list[Outcome]]
"""Writes jobs, each of them together or not at all; see :meth:`cgsa.live.store.Store.write_each`."""


class RemoteDatabase:
    """An SQLite database on this computer.

    If the process that writes dies after it has written and before it says so, its jobs are written again: an entry of
    the audit may then be there twice.
    """

    longest_pause = 4
    errors = sqlite3.Error
    repairs: tuple[str, ...] = ()

    def __init__(self, path: Path, write_each: WriteEach) -> None:
        self._path, self._write_each = path, write_each
        self.where, self.files, self.dialect = str(path), (path,), SqliteDialect()

    def write(self, jobs: Sequence[WriteJob]) -> list[Outcome]:
        """Have jobs written."""
        return self._write_each([job.statements for job in jobs])

    def is_damage(self, error: BaseException) -> bool:
        """Return False: the process that writes finds and repairs damage."""
        del error
        return False

    def repair(self, damage: Exception) -> list[str]:
        """Do nothing, since nothing is reported as damage."""
        del damage
        return []

    def reading(self) -> AbstractContextManager[Snapshot]:
        """Open a snapshot."""
        return read_store(self._path)

    @contextmanager
    def maintaining(self) -> Iterator[bool]:
        """Yield False: the process that writes deletes and thins old rows."""
        yield False

    def end_reading(self) -> None:
        """Do nothing: each snapshot has a connection of its own."""

    def close(self, *, clean: bool) -> None:
        """Do nothing: nothing is open here."""
        del clean
