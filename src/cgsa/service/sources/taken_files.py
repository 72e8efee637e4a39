"""Which files of a folder were taken: a small database, so that each is taken once, also across kills."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Literal, Self

from cgsa.errors import DataError
from cgsa.service.sources.folder_scan import FoundFile

_TABLE = """
    CREATE TABLE IF NOT EXISTS files (
        path TEXT PRIMARY KEY, size INTEGER NOT NULL, modified INTEGER NOT NULL, state TEXT NOT NULL,
        sequence INTEGER NOT NULL, begin REAL NOT NULL, reason TEXT NOT NULL
    )
"""


@dataclass(frozen=True)
class TakenFile:
    """A file that was taken, is being taken or was refused."""

    path: str
    size: int
    modified: int
    state: Literal["taking", "taken", "refused"]
    sequence: int = 0
    """Number of its first block."""
    begin: float = 0.0
    """Time of its first sample."""
    reason: str = ""
    """Why it was refused."""

    def is_same(self, found: FoundFile) -> bool:
        """Return whether a file is this one, and not another of the same name."""
        return (self.path, self.size, self.modified) == (found.path, found.size, found.modified)


class TakenFiles:
    """The database; a context manager that closes it, usable from any thread.

    Every change is on the disk when the method returns.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute(_TABLE)
            rows = self._connection.execute("SELECT * FROM files").fetchall()
        except (OSError, sqlite3.Error) as error:
            raise DataError(f"{path}: cannot be used ({error}); remove it to take all files again") from error
        self._files = {row[0]: TakenFile(*row) for row in rows}

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def get(self, path: str) -> TakenFile | None:
        """Return what is known of a file."""
        return self._files.get(path)

    def files(self) -> list[TakenFile]:
        """Return all files, those that are not complete first."""
        return sorted(self._files.values(), key=lambda one: (one.state != "taking", one.begin))

    def put(self, file: TakenFile) -> None:
        """Add a file, or replace what is known of it."""
        values = (file.path, file.size, file.modified, file.state, file.sequence, file.begin, file.reason)
        with self._changing() as connection:
            connection.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        self._files[file.path] = file

    def forget(self, path: str) -> None:
        """Remove a file: another one of its name is a new one."""
        with self._changing() as connection:
            connection.execute("DELETE FROM files WHERE path = ?", (path,))
        self._files.pop(path, None)

    def forget_missing(self, root: Path) -> None:
        """Remove the files that are no longer there."""
        for path in [path for path in self._files if not (root / path).exists()]:
            self.forget(path)

    def close(self) -> None:
        """Release the database."""
        # A thread whose caller was cancelled may still be writing.
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock:
                yield self._connection
        except sqlite3.Error as error:
            raise DataError(f"{self._path}: cannot be written ({error})") from error
