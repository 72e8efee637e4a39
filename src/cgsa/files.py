"""Writing files atomically: a file is either complete or absent."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cgsa.errors import CgsaError


@contextmanager
def replacing(target: Path, error: type[CgsaError]) -> Iterator[Path]:
    """Yield a temporary path next to ``target``; on success it replaces the target atomically.

    On any failure, such as a full disk, the old target is unchanged, the temporary
    file or folder is removed, and an ``OSError`` is raised again as ``error``.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as problem:
        raise error(f"{target}: cannot be written ({problem.strerror})") from problem
    fresh, old = temporary / "new", temporary / "old"
    try:
        yield fresh
        for path in sorted(fresh.rglob("*")) if fresh.is_dir() else []:
            sync_path(path)
        sync_path(fresh)
        if target.is_dir():
            # A folder cannot be renamed over a folder that is not empty: move the old one first.
            target.rename(old)
            try:
                fresh.rename(target)
            except OSError:
                old.rename(target)
                raise
        else:
            fresh.replace(target)
        sync_path(target.parent)
    except OSError as problem:
        raise error(
            f"{target}: cannot be written ({problem.strerror or problem}); the previous version is untouched"
        ) from problem
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def lock_file(path: Path) -> int:
    """Return a handle that keeps other processes from locking a file while it is open; the file has the process number.

    If another process has locked it, a ``BlockingIOError`` with that number is raised.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        holder = os.read(handle, 20).decode("ascii", "replace")
        os.close(handle)
        if isinstance(problem, BlockingIOError):
            raise BlockingIOError(problem.errno, f"process {holder}") from problem
        raise
    # The process number is for the operator. If the disk is too full for it, the lock still holds.
    with suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
    return handle


def sync_path(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
