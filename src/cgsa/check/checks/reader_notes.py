"""What readers found unusual."""

from __future__ import annotations

from collections.abc import Iterator

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.finding import NOTE


def find_reader_notes(data: DataSummary) -> Iterator[Finding]:
    """Yield every different note of the readers, with its recordings."""
    notes: dict[str, list[str]] = {}
    for one in data.readable:
        for note in one.notes:
            notes.setdefault(note, []).append(one.name)
    for note, names in notes.items():
        yield Finding(
            NOTE,
            note[:1].upper() + note[1:],
            f"The reader noticed it in {len(names)} recordings",
            "Check that it was handled as you expect",
            tuple(names),
        )


CHECK = Check("what readers found unusual", find_reader_notes)
