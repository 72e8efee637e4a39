"""What a machine was diagnosed with over a span of time, as the store tells it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cgsa.events import Case, Diagnosis
from cgsa.live.store import MAX_PAGE, RowSelection, Snapshot

MOST_POINTS = 300
"""Batches that a chart shows."""
MOST_CASES = 100


@dataclass(frozen=True)
class Interval:
    """From when to when something held."""

    begin: float
    end: float
    what: str


@dataclass(frozen=True, eq=False)
class DiagnosisTimeline:
    """Diagnoses in their order, and the cases of their time."""

    begin: float
    end: float
    told: tuple[Diagnosis, ...]
    """Not more than a chart shows."""
    thinned: bool
    """Whether there are more than these."""
    cases: tuple[Case, ...]

    def states(self) -> list[Interval]:
        """Return when which state was told of."""
        return join_intervals((told.begin, told.end, told.state or told.verdict) for told in self.told)

    def alarms(self) -> list[Interval]:
        """Return when a case was open, the faults of machine and sensor alike."""
        found = []
        for case in self.cases:
            end = self.end if case.closed is None else case.closed
            if end > self.begin:
                found.append(Interval(max(case.opened, self.begin), min(end, self.end), case.fault))
        return sorted(found, key=lambda one: one.begin)


def join_intervals(parts: Iterable[tuple[float, float, str]]) -> list[Interval]:
    """Join parts in a row of which the same is said; the next one ends the one before.

    >>> stretches([(0, 2, "a"), (1, 3, "a"), (2, 4, "b")])
    [Stretch(begin=0, end=2, what='a'), Stretch(begin=2, end=4, what='b')]
    """
    found: list[Interval] = []
    for begin, end, what in parts:
        if found and found[-1].what == what:
            found[-1] = Interval(found[-1].begin, end, what)
            continue
        if found:
            # Batches overlap by a window, and what is thinned leaves gaps.
            found[-1] = Interval(found[-1].begin, begin, found[-1].what)
        found.append(Interval(begin, end, what))
    return found


def read_timeline(store: Snapshot, machine: str, begin: float, end: float) -> DiagnosisTimeline:
    """Read a course; of a long span, one batch of each of equal stretches."""
    page = store.diagnoses(machine, RowSelection(begin=begin, limit=MAX_PAGE))
    told = _sampled(store, machine, begin, end) if page.more else [row.diagnosis for row in reversed(page.rows)]
    kept = _spread(told)
    cases = store.cases(machine, pick=RowSelection(limit=MOST_CASES)).rows
    return DiagnosisTimeline(
        begin=begin,
        end=end,
        told=tuple(kept),
        thinned=page.more or len(kept) < len(told),
        cases=tuple(row.case for row in cases),
    )


def _sampled(store: Snapshot, machine: str, begin: float, end: float) -> list[Diagnosis]:
    """Return the newest batch of each stretch: to read them all would take the store seconds."""
    step = (end - begin) / MOST_POINTS
    found = []
    for number in range(MOST_POINTS):
        first = begin + number * step
        rows = store.diagnoses(machine, RowSelection(begin=first, end=first + step, limit=1)).rows
        found += [row.diagnosis for row in rows]
    return found


def _spread(told: Sequence[Diagnosis]) -> Sequence[Diagnosis]:
    """Return at most as many as a chart shows, the newest among them."""
    stride = -(-len(told) // MOST_POINTS)
    return told if stride <= 1 else told[::-1][::stride][::-1]
