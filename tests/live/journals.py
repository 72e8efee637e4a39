"""Small journals for tests, and checks of what is read from them."""

from __future__ import annotations

from pathlib import Path

from cgsa.live.journal import Journal
from cgsa.live.segments import Entry, JournalRecord

PAYLOADS = [b"", b"a", b"some samples", b"\0" * 20, b"CGJ1 begins a record, but not this"]
"""Payload of the record at each position."""


def write(folder: Path, *, segment_bytes: int = 2**20) -> None:
    with Journal(folder, segment_bytes=segment_bytes) as journal:
        for text in PAYLOADS:
            journal.append("block", text)


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.journal"))


def check_tiles(entries: list[Entry], begin: int, end: int) -> list[JournalRecord]:
    """Every position is accounted for once, in order; return the records among the entries."""
    for entry in entries:
        assert entry.position == begin
        assert entry.end > entry.position
        begin = entry.end
    assert begin == end
    return [entry for entry in entries if isinstance(entry, JournalRecord)]


def check_true(records: list[JournalRecord]) -> None:
    assert all(record == JournalRecord(record.position, "block", PAYLOADS[record.position]) for record in records)
