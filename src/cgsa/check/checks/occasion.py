"""Whether classes can be told apart by the occasion of their recording."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.finding import NOTE, WARNING
from cgsa.check.summary import RecordingSummary


def find_single_occasions(data: DataSummary) -> Iterator[Finding]:
    """Yield classes that come from one unit or session of their own."""
    for kind, of in (("unit", _unit), ("session", _session)):
        occasions = {
            label: {of(one) for one in data.readable if one.label == label and of(one)} for label in data.classes
        }
        yield from _confounded(data, kind, occasions)
    if data.classes and not any(_unit(one) or _session(one) for one in data.readable):
        yield Finding(
            NOTE,
            "No unit and no session is stated",
            "Whether a class was recorded on one occasion only, and differs by that, cannot be checked",
            "State the unit or the day of each recording if they are known",
        )


def _confounded(data: DataSummary, kind: str, occasions: Mapping[str, set[str]]) -> Iterator[Finding]:
    several = {label for label, own in occasions.items() if len(own) > 1}
    for label, own in occasions.items():
        elsewhere = set().union(*(found for other, found in occasions.items() if other != label))
        if len(own) != 1 or len(data.classes) < 2:
            continue
        [occasion] = own
        if occasion not in elsewhere or several:
            yield Finding(
                WARNING,
                f"All recordings of class {label!r} are from one {kind}, {occasion!r}"
                + ("" if occasion in elsewhere else ", which no other class has"),
                f"What is special about that {kind} looks the same as the class: mounting, temperature, wear",
                f"Record {label!r} on another {kind}, and another class on {occasion!r}",
                tuple(one.name for one in data.readable if one.label == label),
            )
    shared = [own & other for own in occasions.values() for other in occasions.values() if own is not other]
    if kind == "unit" and len(several) == len(occasions) > 1 and not any(shared):
        fewest = min(map(len, occasions.values()))
        yield Finding(
            NOTE,
            f"Every unit belongs to one class; each class has {fewest} or more units",
            "What differs from unit to unit looks like a difference of the classes",
            "Judge a model on units that were left out of its training",
        )


def _unit(one: RecordingSummary) -> str:
    return one.recording.unit or ""


def _session(one: RecordingSummary) -> str:
    return one.recording.session or ""


CHECK = Check("classes from one unit or session", find_single_occasions)
