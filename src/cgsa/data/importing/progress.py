"""Which recordings of a data set were written: an interrupted import resumes from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cgsa.config import as_table, bind
from cgsa.errors import ConfigError, DataError

PROGRESS = "progress.jsonl"


@dataclass(frozen=True)
class ImportedRecording:
    """A recording that was read and written."""

    key: str
    """Of the file that it came from, and of how it was read."""
    file: str
    sample_rate: float
    channels: tuple[str, ...]
    units: tuple[str, ...]
    ranges: Mapping[str, tuple[float, float]]
    """Lowest and highest value of each measured condition."""
    samples: int
    notes: tuple[str, ...] = ()
    """What the reader found unusual."""


def read_progress(folder: Path) -> dict[str, ImportedRecording]:
    """Return the recordings of an interrupted import, the last state of each."""
    path = folder / PROGRESS
    found: dict[str, ImportedRecording] = {}
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            one = bind(ImportedRecording, json.loads(line), str(path))
            found[one.file] = one
    except (OSError, ValueError, ConfigError):
        # Nothing to resume, or the last line is cut off: what is not listed is read again.
        return found
    return found


def add_progress(folder: Path, done: ImportedRecording) -> None:
    """Note a recording that was written; what is noted last counts."""
    path = folder / PROGRESS
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(as_table(done)) + "\n")
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})") from error
