"""Which classes were recorded under which conditions."""

from __future__ import annotations

from collections.abc import Iterator

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.finding import NOTE, WARNING


def find_holes(data: DataSummary) -> Iterator[Finding]:
    """Yield combinations of class and operating point without recording, and conditions that never change."""
    steady = all(one.steady for one in data.readable)
    if steady and len(data.classes) > 1 and len(data.points) > 1:
        yield from _missing_combinations(data)
    for name in sorted({name for one in data.readable for name in one.conditions}):
        values = {one.conditions[name] for one in data.readable if name in one.conditions}
        if steady and len(values) == 1:
            yield Finding(
                NOTE,
                f"Condition {name} is {next(iter(values)):g} in all recordings",
                "What a model does at other values cannot be told from these recordings",
                "Record other values if they occur in operation",
            )


def _missing_combinations(data: DataSummary) -> Iterator[Finding]:
    recorded = coverage_counts(data)
    for label in data.classes:
        missing = [
            point
            for point in data.points
            if not recorded.get((label, point)) and sum((other, point) in recorded for other in data.classes) > 1
        ]
        alone = [
            point
            for point in data.points
            if (label, point) in recorded and sum((other, point) in recorded for other in data.classes) == 1
        ]
        if missing:
            yield Finding(
                WARNING,
                f"Class {label!r} was not recorded at {_listed(missing)}, where other classes were",
                "A model learns that this class does not occur there",
                "Record the class there, or leave the point out for all classes",
            )
        if alone:
            yield Finding(
                WARNING,
                f"Only class {label!r} was recorded at {_listed(alone)}",
                "There the condition tells the class, so that a model may learn the condition instead of the fault",
                "Record the other classes there, the healthy one first",
            )


def coverage_counts(data: DataSummary) -> dict[tuple[str, str], int]:
    """Return the number of recordings of each class at each operating point, without zeros."""
    counts: dict[tuple[str, str], int] = {}
    for one in data.readable:
        if one.label:
            counts[one.label, one.point] = counts.get((one.label, one.point), 0) + 1
    return counts


def _listed(points: list[str]) -> str:
    more = f" and {len(points) - 3} other points" if len(points) > 3 else ""
    return "; ".join(points[:3]) + more


CHECK = Check("classes that were not recorded under all conditions", find_holes)
