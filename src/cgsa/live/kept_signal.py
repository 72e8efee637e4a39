"""The signal around alarms and labels, which stays on the disk when the journal no longer needs it.

A journal reaches back to the last saved states. People find out later what an alarm was about, so the segments of the
journal that hold the time around it are moved to a folder of their own, as long as they fit into a budget.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cgsa.errors import ConfigError, DataError
from cgsa.live.intake.block import Block
from cgsa.live.segments import JournalRecord, SegmentReader, list_segments, segment_path
from cgsa.live.state_file import SavedState
from cgsa.live.store import Store

MEGABYTE = 10**6
KEPT_FOLDER = "kept"
"""Name of the folder beside the journal of a machine."""


@dataclass(frozen=True)
class SignalRetention:
    """How much signal to keep for labels that are given later."""

    before: float = 60.0
    """Seconds of signal to keep from before an alarm, at least: whole segments of the journal are kept."""
    after: float = 60.0
    """Seconds of signal to keep from after an alarm, at least."""
    megabytes: float = 1024.0
    """What may be kept per machine; beyond it, the oldest signal is removed."""

    def __post_init__(self) -> None:
        if min(self.before, self.after, self.megabytes) < 0:
            raise ConfigError(
                f"before {self.before:g}, after {self.after:g}, megabytes {self.megabytes:g}; expected 0 or more"
            )


class KeptSignal:
    """Takes the segments that the journal of a machine forgets, and keeps those around alarms and labels."""

    def __init__(self, machine: str, folder: Path, store: Store, retention: SignalRetention) -> None:
        self.machine, self.folder, self.retention = machine, folder, retention
        self._store = store

    def first_needed(self, states: Iterable[SavedState], now: float) -> int:
        """Return the position from which on the journal must stay whole, since an alarm may still come."""
        early = [state.position for state in states if state.time <= now - self.retention.before]
        return max(early, default=0)

    def take(self, segment: Path) -> None:
        """Keep or remove a segment that the journal forgets."""
        span = segment_span(segment)
        if span is None or not self._is_wanted(*span):
            segment.unlink(missing_ok=True)
            return
        self.folder.mkdir(exist_ok=True)
        segment.rename(self.folder / segment.name)
        self._keep_budget()

    def _is_wanted(self, begin: float, end: float) -> bool:
        with self._store.read() as snapshot:
            return snapshot.is_wanted_later(
                self.machine, begin, end, before=self.retention.before, after=self.retention.after
            )

    def _keep_budget(self) -> None:
        """Remove the oldest segments until the rest fits."""
        paths = [segment_path(self.folder, first) for first in list_segments(self.folder)]
        total = sum(path.stat().st_size for path in paths)
        for path in paths:
            if total <= self.retention.megabytes * MEGABYTE:
                return
            total -= path.stat().st_size
            path.unlink()


def segment_span(segment: Path) -> tuple[float, float] | None:
    """Return the times at which the signal of a segment begins and ends; None if it has none that can be read."""
    begin, end = float("inf"), -float("inf")
    for entry in SegmentReader(segment, int(segment.stem)).entries():
        if not isinstance(entry, JournalRecord):
            continue
        try:
            block = Block.from_bytes(entry.payload)
        except DataError:
            # A command, or a damaged block.
            continue
        begin, end = min(begin, block.time), max(end, block.time + block.seconds)
    return (begin, end) if begin < end else None
