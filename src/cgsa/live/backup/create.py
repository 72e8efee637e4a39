"""Backs up the folder of a service, also while the service runs.

The copy must be one that a killed service could have left, so that a service that starts from it resumes with the same
verdicts. A worker saves a state after the results before it are in the store, and writes to the journal before anything
else. So the copy is made in this order:

1. progress of sources: what it lacks is sent again, and recognised as a repetition;
2. states of the machines;
3. the store, as one snapshot: it has the results of everything that the states include;
4. the outbox, and at last the journals: they have everything that the store knows of.

A journal forgets what the newest states do not need. So the segments of all journals are open from the beginning on,
and while the store is copied those that are new are opened, too: what is open can be read after its removal.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from importlib import import_module
from pathlib import Path
from typing import BinaryIO, Self

from cgsa.errors import DataError
from cgsa.files import replacing
from cgsa.live.backup.manifest import (
    BackupFile,
    BackupManifest,
    check_files,
    copy_hashed,
    describe_file,
    write_manifest,
)
from cgsa.live.segments import SegmentReader, list_segments, segment_path
from cgsa.live.store.connection import connect_to_read
from cgsa.live.store.opening import PLACE_FILE, STORE_FILE

PAGES_PER_STEP = 4096
"""Pages of a database copied between two looks for new segments of journals."""
_LEFT_OUT = re.compile(
    r"(lock|login-link|.*\.(lock|header|repairing|repaired|first-page|damaged-\d+))((-wal|-shm)?)|\..*"
)
"""Names of files that belong to a running process, that are made anew, or that are damaged."""


def back_up(plant: Path, target: Path) -> BackupManifest:
    """Copy the folder of a service to a new folder; the copy is complete and verified, or there is none."""
    if (plant / PLACE_FILE).is_file():
        raise DataError(
            f"{plant}: its store is in PostgreSQL, which pg_dump backs up; stop the service, dump it and copy "
            "the folder, as docs/operations.md describes"
        )
    if not (plant / STORE_FILE).is_file():
        raise DataError(f"{plant}: there is no store here; expected the folder of a service")
    if target.exists():
        raise DataError(f"{target}: exists already; choose another folder for the backup")
    try:
        with replacing(target, DataError) as fresh, ExitStack() as stack:
            fresh.mkdir(mode=0o700)
            manifest = stack.enter_context(_Backup(plant, fresh)).run()
            write_manifest(fresh, manifest)
            # What is on the disk now, not what was meant to be written.
            check_files(fresh, manifest)
    except sqlite3.Error as error:
        raise DataError(f"{plant}: cannot be backed up ({error})") from error
    return manifest


class _Backup:
    """One backup; a context manager that closes the files it keeps open."""

    def __init__(self, plant: Path, target: Path) -> None:
        self._plant, self._target = plant, target
        self._files: dict[str, BackupFile] = {}
        self._journals = [_HeldJournal(path) for path in _journal_folders(plant)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for journal in self._journals:
            journal.close()

    def run(self) -> BackupManifest:
        """Copy everything in an order that makes the copy consistent."""
        self._open_new_segments()
        machines = sorted(path.name for path in _folders(self._plant / "machines"))
        for path in self._others():
            if path.suffix == ".sqlite":
                self._copy_database(path)
            else:
                self._copy(path)
        for machine in machines:
            for path in sorted((self._plant / "machines" / machine / "states").glob("*.state")):
                self._copy(path)
        version = self._copy_database(self._plant / STORE_FILE)
        for journal in self._journals:
            self._copy_journal(journal)
        for machine in machines:
            self._copy_kept(machine)
        package = import_module("cgsa").__version__
        return BackupManifest(time.time(), package, version, tuple(machines), dict(sorted(self._files.items())))

    def _others(self) -> Iterator[Path]:
        """Yield the files besides store, machines and segments of the outbox."""
        for path in sorted(self._plant.rglob("*")):
            parts = path.relative_to(self._plant).parts
            named = parts[0] != "machines" and path.suffix != ".journal" and not path.name.startswith(f"{STORE_FILE}")
            inside = not any(_LEFT_OUT.fullmatch(part) for part in parts) and not path.name.endswith(("-wal", "-shm"))
            if named and inside and path.is_file():
                yield path

    def _copy(self, path: Path) -> None:
        """Copy a file; one that was removed meanwhile is not needed any more."""
        try:
            with path.open("rb") as file:
                self._add(path, copy_hashed(file, self._place(path)))
        except FileNotFoundError:
            return

    def _copy_database(self, path: Path) -> int:
        """Copy a database as one snapshot; return the version of its tables."""
        place = self._place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        with closing(connect_to_read(path)) as source, closing(sqlite3.connect(place)) as copy:
            # Within one transaction the snapshot stays, whatever is written meanwhile.
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_master").fetchone()
            source.backup(copy, pages=PAGES_PER_STEP, progress=lambda *_: self._open_new_segments())
            # Without a log beside it, which a folder that is read-only could not have.
            copy.execute("PRAGMA journal_mode = DELETE")
            version = int(copy.execute("PRAGMA user_version").fetchone()[0])
        place.chmod(0o600)
        self._add(path, describe_file(place))
        return version

    def _open_new_segments(self) -> None:
        for journal in self._journals:
            journal.open_new()

    def _copy_journal(self, journal: _HeldJournal) -> None:
        """Copy the segments of a journal up to its last complete record."""
        journal.open_new()
        firsts = sorted(journal.handles)
        for first in firsts:
            path = segment_path(journal.folder, first)
            place = self._place(path)
            described = copy_hashed(journal.handles[first], place)
            if first == firsts[-1]:
                _remove_incomplete(place, first)
                described = describe_file(place)
            self._add(path, described)

    def _copy_kept(self, machine: str) -> None:
        """Copy the signal around alarms, but for what was still in the journal."""
        folder = self._plant / "machines" / machine
        for path in sorted((folder / "kept").glob("*.journal")):
            if (folder / "journal" / path.name).relative_to(self._plant).as_posix() not in self._files:
                self._copy(path)

    def _place(self, path: Path) -> Path:
        return self._target / path.relative_to(self._plant)

    def _add(self, path: Path, described: BackupFile) -> None:
        self._files[path.relative_to(self._plant).as_posix()] = described


class _HeldJournal:
    """The segments of one journal, kept open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.handles: dict[int, BinaryIO] = {}

    def open_new(self) -> None:
        """Open the segments that are new."""
        for first in list_segments(self.folder):
            if first not in self.handles:
                try:
                    self.handles[first] = segment_path(self.folder, first).open("rb")
                except FileNotFoundError:
                    continue  # forgotten since it was listed

    def close(self) -> None:
        """Close all segments."""
        for handle in self.handles.values():
            handle.close()


def _remove_incomplete(copy: Path, first: int) -> None:
    """Remove a record at the end of a segment that was in the making when it was copied."""
    reader = SegmentReader(copy, first)
    for _ in reader.entries():
        continue
    os.truncate(copy, reader.offset)


def _journal_folders(plant: Path) -> list[Path]:
    """Return the folders of the journals: of the outbox before those of the machines."""
    outbox = plant / "outbox" / "letters"
    return [*([outbox] if outbox.is_dir() else []), *(path / "journal" for path in _folders(plant / "machines"))]


def _folders(parent: Path) -> Iterable[Path]:
    return sorted(path for path in parent.iterdir() if (path / "journal").is_dir()) if parent.is_dir() else []
