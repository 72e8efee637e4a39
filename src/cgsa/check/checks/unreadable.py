"""Recordings that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.finding import STOPS


def find_unreadable(data: DataSummary) -> Iterator[Finding]:
    """Yield every recording whose reader refused it, with the reader's reason."""
    for one in data.recordings:
        if one.failure is not None:
            yield Finding(
                STOPS,
                f"{one.name} cannot be read: {one.failure}",
                "Training reads every recording and fails here",
                "Repair the file, or take it out of the set",
                (one.name,),
            )


CHECK = Check("recordings that cannot be read", find_unreadable, before_training=True)
