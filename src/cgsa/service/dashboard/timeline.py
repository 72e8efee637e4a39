"""The diagnoses of a machine over a period, read from the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cgsa.events import Case, Diagnosis
from cgsa.live.store import MAX_PAGE, RowSelection, Snapshot

MAX_POINTS = 300
"""Batches that a chart shows."""
MAX_CASES = 100


@dataclass(frozen=True)
class Interval:
    """A state or fault, and the period in which it lasted."""

    begin: float
    end: float
    name: str


@dataclass(frozen=True, eq=False)
class DiagnosisTimeline:
    """Diagnoses in time order, and the cases of the same period."""

    begin: float
    end: float
    diagnoses: tuple[Diagnosis, ...]
    """At most as many as a chart shows."""
    thinned: bool
    """Whether the store has more than these."""
    cases: tuple[Case, ...]

    def states(self) -> list[Interval]:
        """Return the reported states."""
        return join_intervals((one.begin, one.end, one.state or one.verdict) for one in self.diagnoses)

    def alarms(self) -> list[Interval]:
        """Return the periods with an open case, whether of the machine or of its sensor."""
        found = []
        for case in self.cases:
            end = self.end if case.closed is None else case.closed
            if end > self.begin:
                found.append(Interval(max(case.opened, self.begin), min(end, self.end), case.fault))
        return sorted(found, key=lambda one: one.begin)


def join_intervals(parts: Iterable[tuple[float, float, str]]) -> list[Interval]:
    """Join consecutive parts with the same name; each interval ends where the next begins.

    >>> join_intervals([(0, 2, "a"), (1, 3, "a"), (2, 4, "b")])
    [Interval(begin=0, end=2, name='a'), Interval(begin=2, end=4, name='b')]
    """
    found: list[Interval] = []
    for begin, end, name in parts:
        if found and found[-1].name == name:
            found[-1] = Interval(found[-1].begin, end, name)
            continue
        if found:
            # Batches overlap by a window, and thinning leaves gaps.
            found[-1] = Interval(found[-1].begin, begin, found[-1].name)
        found.append(Interval(begin, end, name))
    return found


def read_timeline(store: Snapshot, machine: str, begin: float, end: float) -> DiagnosisTimeline:
    """Read a timeline; of a long period, only one batch from each of equal intervals."""
    page = store.diagnoses(machine, RowSelection(begin=begin, limit=MAX_PAGE))
    found = _one_per_interval(store, machine, begin, end) if page.more else [row.diagnosis for row in page.rows[::-1]]
    # At most as many as a chart shows, including the newest.
    kept = found[::-1][:: max(1, -(-len(found) // MAX_POINTS))][::-1]
    cases = store.cases(machine, pick=RowSelection(limit=MAX_CASES)).rows
    return DiagnosisTimeline(
        begin=begin,
        end=end,
        diagnoses=tuple(kept),
        thinned=page.more or len(kept) < len(found),
        cases=tuple(row.case for row in cases),
    )


def _one_per_interval(store: Snapshot, machine: str, begin: float, end: float) -> list[Diagnosis]:
    """Return the newest batch of each interval: reading them all would take the store seconds."""
    step = (end - begin) / MAX_POINTS
    found = []
    for number in range(MAX_POINTS):
        first = begin + number * step
        rows = store.diagnoses(machine, RowSelection(begin=first, end=first + step, limit=1)).rows
        found += [row.diagnosis for row in rows]
    return found
