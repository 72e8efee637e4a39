"""Runs of windows or blocks that are rejected for one reason: noted where they begin and end, not each of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cgsa.events import Note


@dataclass(frozen=True)
class RejectedRun:
    """An uninterrupted run of windows or blocks that were rejected for one reason."""

    reason: str
    since: float
    count: int = 0


def follow_run(
    before: RejectedRun | None, reason: str | None, time: float, *, machine: str, now: float, count: int = 1
) -> tuple[RejectedRun | None, tuple[Note, ...]]:
    """Return the run after more windows or blocks, rejected for a reason or not, and the notes about it."""
    if before is not None and before.reason == reason:
        return replace(before, count=before.count + count), ()
    notes = []
    if before is not None:
        text = f"{before.reason} is over after {max(0.0, time - before.since):.2f} s"
        notes.append(Note(machine, now, "sensor", text, {"reason": before.reason, "since": before.since}))
    if reason is not None:
        text = f"{reason}; rejected and not used for adaptation"
        notes.append(Note(machine, now, "sensor", text, {"reason": reason}))
    return None if reason is None else RejectedRun(reason, time, count), tuple(notes)
