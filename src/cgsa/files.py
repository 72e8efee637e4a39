"""Writing files that are either whole or not there at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cgsa.errors import CgsaError


@contextmanager
def replacing(target: Path, error: type[CgsaError]) -> Iterator[Path]:
    """Give a temporary path beside ``target``; on success it takes the target's place in one step.

    Whatever goes wrong, a full disk included, the old target stays as it was,
    the temporary file or folder is removed, and an ``OSError`` is raised again
    as ``error``.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        room = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as problem:
        raise error(f"{target}: cannot be written ({problem.strerror})") from problem
    fresh, old = room / "new", room / "old"
    try:
        yield fresh
        _flush(fresh)
        if target.is_dir():
            # A folder cannot be renamed over a folder that holds files: step it aside first.
            target.rename(old)
            try:
                fresh.rename(target)
            except OSError:
                old.rename(target)
                raise
        else:
            fresh.replace(target)
        _flush_entry(target.parent)
    except OSError as problem:
        raise error(
            f"{target}: cannot be written ({problem.strerror or problem}); what was there before is untouched"
        ) from problem
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _flush(path: Path) -> None:
    """Push a file, or a folder with its files, down to the disk."""
    for file in sorted(path.rglob("*")) if path.is_dir() else []:
        _flush_entry(file)
    _flush_entry(path)


def _flush_entry(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
