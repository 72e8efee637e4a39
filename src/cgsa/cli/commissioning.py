"""The commissioning of a machine in the output of ``cgsa watch``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from cgsa.events import Diagnosis

ADVICE = "if the machine was healthy when the recording started, say so with --healthy-start"


def commissioning_word(event: Diagnosis) -> str:
    """Return how far the commissioning is, in one to three words; empty if the method needs none."""
    status = event.commissioning
    if status is None:
        return ""
    if status.state == "done":
        return "reference" if status.reference else "done"
    return status.state if status.cause is None else f"{status.state}: {status.cause}"


def commissioning_lines(events: Sequence[Diagnosis]) -> list[str]:
    """Return one line for each wait, question or decision, in the order of time."""
    lines = []
    for word, group in groupby(events, key=commissioning_word):
        interval = list(group)
        first, last = interval[0].commissioning, interval[-1].commissioning
        # That the start is being observed gets a line only if it never ended.
        observing = word == "waiting" and interval[-1] is not events[-1]
        if first is not None and last is not None and not observing:
            lines.append(f"{interval[0].begin:.1f} to {interval[-1].end:.1f} s: {last.text}")
    if events and (status := events[-1].commissioning) is not None and status.state == "question":
        lines.append(ADVICE)
    return lines
