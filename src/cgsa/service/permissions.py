"""Files of a service that only its owner may read: they hold samples, token hashes and keys."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cgsa.errors import DataError

OTHERS = stat.S_IRWXG | stat.S_IRWXO
"""Rights of the group and of everybody else."""


@contextmanager
def private_files() -> Iterator[None]:
    """Create all files in the context for their owner alone."""
    before = os.umask(OTHERS)
    try:
        yield
    finally:
        os.umask(before)


def create_private_folder(folder: Path) -> None:
    """Create the folder of a service, which only its owner may enter; one that exists keeps its mode."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be created ({error.strerror})") from error


def open_to_others(paths: Iterable[Path]) -> list[str]:
    """Return a message for each path that others than its owner may read or change."""
    found = []
    for path in paths:
        try:
            mode = path.stat().st_mode
        except OSError:
            continue  # whatever needs it says so
        if mode & OTHERS:
            right = stat.S_IMODE(mode) & ~OTHERS
            found.append(
                f"{path}: others than its owner may use it (mode {stat.S_IMODE(mode):04o}); "
                f"expected {right:04o}: chmod {right:o} {path}"
            )
    return found
