"""What an import has found: one entry per recording, and how to read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cgsa.data.dataset_file import Split
from cgsa.data.recording import Recording
from cgsa.errors import DataError

HEALTHY_WORDS = ("healthy", "health", "normal", "good", "ok", "baseline", "intact")
"""A class with one of them as a word of its name is the healthy one."""


@dataclass(frozen=True)
class FoundRecording:
    """A recording to import."""

    path: Path
    label: str
    conditions: Mapping[str, float] = field(default_factory=dict)
    """Constant conditions; measured ones are in the recording."""
    unit: str | None = None
    run: str | None = None
    split: Split | None = None
    rows: tuple[int, int] | None = None
    """First row and the one behind the last, if the file holds several recordings."""

    @property
    def name(self) -> str:
        """Name of the recording: that of the file, and the class of its rows."""
        # What follows the last dot may belong to a time, as in 2004.02.12.10.32.39.
        stem = self.path.name if self.path.suffix[1:].isdecimal() else self.path.stem
        return stem if self.rows is None else f"{stem}_{self.label}"

    @property
    def origin(self) -> str:
        """The file that it comes from, and its rows counted from 1."""
        path = str(self.path.resolve())
        return path if self.rows is None else f"{path}, rows {self.rows[0] + 1} to {self.rows[1]}"


@dataclass(frozen=True)
class ImportPlan:
    """The recordings to import into one data set."""

    name: str
    recordings: tuple[FoundRecording, ...]
    read: Callable[[FoundRecording], Recording]
    """Reads a recording with its measured conditions only."""
    healthy: str | None = None
    """Name of the healthy class; None finds it by its name."""
    condition_units: Mapping[str, str] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    """How recordings are read; an interrupted import with other settings reads them again."""
    notes: tuple[str, ...] = ()

    @property
    def classes(self) -> tuple[str, ...]:
        """All classes, the healthy one first."""
        names = sorted({one.label for one in self.recordings})
        healthy = self.healthy or find_healthy(names)
        if healthy is None or healthy not in names:
            what = f"no class {healthy!r}" if healthy else "which of them is the healthy one is unclear"
            raise DataError(f"classes {', '.join(names)}: {what}; pass --healthy with one of these names")
        return (healthy, *(name for name in names if name != healthy))


def find_healthy(names: list[str]) -> str | None:
    """Return the only name with a word for healthy in it; None if there is none, or more than one.

    >>> find_healthy(["bearing_ball", "Normal_state"]), find_healthy(["a", "b"])
    ('Normal_state', None)
    """
    found = [
        name for name in names if {*name.lower().replace("-", "_").replace(" ", "_").split("_")} & {*HEALTHY_WORDS}
    ]
    return found[0] if len(found) == 1 else None
