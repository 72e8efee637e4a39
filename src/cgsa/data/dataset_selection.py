"""From the entries of a data set to a scenario: which recordings belong together, and what training cuts from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cgsa.data.dataset_file import ConditionEntry, MachineFile, RecordingEntry
from cgsa.data.levels import level_name, span_name
from cgsa.data.scenario import Condition, Scenario, SegmentSelection, Stage
from cgsa.errors import DataError

NO_CONDITION = Condition("condition", "", 0.0, 1.0, tolerance=0.25)
"""Stands for the conditions of a machine of which none is known."""
MEASURED_TOLERANCE, MEASURED_ERROR = 0.025, 0.01
"""Tolerance of a measured condition, as a share of its range and of its highest value; the larger one counts."""


@dataclass(frozen=True)
class SelectedRecording:
    """An entry under the names by which a scenario finds it."""

    entry: RecordingEntry
    point: str
    """Operating condition in words, such as ``speed 1200 rpm, torque 0.7 Nm``."""
    run: str
    """The same, and a number if this specimen was recorded there several times."""
    specimen: int
    """Number of the unit, or of the repetition if there are no units."""

    @property
    def trained(self) -> bool:
        """Whether training may use it."""
        return self.entry.split != "test"


def select_recordings(about: MachineFile) -> tuple[SelectedRecording, ...]:
    """Name every recording by operating condition and specimen, in the order of the entries."""
    conditions = [_condition(known, about.recordings)[1] for known in about.conditions]
    names = [_point(entry, conditions) for entry in about.recordings]
    numbers = specimen_numbers(about.recordings, about.classes[0])
    known: dict[tuple[str, str, int], int] = {}
    found = []
    for entry, point, specimen in zip(about.recordings, names, numbers, strict=True):
        key = (entry.label, point, specimen)
        known[key] = known.get(key, 0) + 1
        run = point if known[key] == 1 else f"{point} #{known[key]}"
        found.append(SelectedRecording(entry, point, run, specimen))
    return tuple(found)


def specimen_numbers(entries: Sequence[RecordingEntry], healthy: str) -> list[int]:
    """Return the number of the specimen of every entry, from 1: of its unit, or of its run if there are no units.

    Where the healthy machine and a fault share a name, equal names are the same specimen. Otherwise every class has
    specimens of its own, such as healthy and damaged bearings, and these are numbered class by class.
    """
    names = [entry.unit or entry.run or "" for entry in entries]
    by_class: dict[str, set[str]] = {}
    for entry, name in zip(entries, names, strict=True):
        by_class.setdefault(entry.label, set()).add(name)
    others = {name for label, own in by_class.items() if label != healthy for name in own}
    shared = not others or bool(by_class.get(healthy, set()) & others)
    ordered = {label: sorted({*names} if shared else own, key=natural_order) for label, own in by_class.items()}
    return [ordered[entry.label].index(name) + 1 for entry, name in zip(entries, names, strict=True)]


def natural_order(text: str) -> tuple[list[tuple[int, int, str]], str]:
    """Return a key that sorts numbers in names by their value.

    >>> sorted(["run10", "run9"], key=natural_order)
    ['run9', 'run10']
    """
    parts = [part for part in re.split(r"(\d+)", text) if part]
    # Names that differ only in leading zeros are ordered by their text.
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts], text


def scenario_of(about: MachineFile, selected: Iterable[SelectedRecording]) -> Scenario:
    """Return the scenario that trains on all of every recording that is not for tests."""
    used = [one for one in selected if one.trained]
    having = {one.entry.label for one in used}
    classes = [label for label in about.classes if label in having]
    healthy = about.classes[0]
    if healthy not in having:
        raise DataError(
            f"{about.name}: no recording of {healthy!r} to train on; expected some, since the first class is the "
            f"healthy one"
        )
    conditions = scenario_conditions(about, [one.entry for one in used])
    ordered = sorted(used, key=lambda one: (_levels_key(one.entry, about.conditions), natural_order(one.run)))
    offline = tuple(_selections(ordered, classes))
    first = offline[0]
    return Scenario(
        name=about.name,
        title=f"{about.name}: the data set of a machine",
        healthy=healthy,
        faults=tuple(classes[1:]),
        channels=tuple(channel.name for channel in about.channels),
        sample_rate=about.sample_rate,
        conditions=conditions,
        offline=offline,
        online=(Stage("C1", first.run, also=first.also, whole=True),),
        specimens=about.specimen_kind,
    )


def scenario_conditions(about: MachineFile, entries: Sequence[RecordingEntry]) -> tuple[Condition, ...]:
    """Return the conditions that vary over some entries, or all of them if none does."""
    found = [_condition(known, entries) for known in about.conditions]
    varying = tuple(condition for varies, condition in found if varies)
    return varying or tuple(condition for _, condition in found) or (NO_CONDITION,)


def _condition(known: ConditionEntry, entries: Sequence[RecordingEntry]) -> tuple[bool, Condition]:
    """Return a condition with the range that the entries cover, and whether it varies over them."""
    levels = sorted({entry.levels[known.name] for entry in entries if known.name in entry.levels})
    limits = [one for entry in entries for one in entry.ranges.get(known.name, ())]
    low, high = min([*levels, *limits]), max([*levels, *limits])
    if limits:
        tolerance = max(MEASURED_TOLERANCE * (high - low), MEASURED_ERROR * max(abs(low), abs(high))) or 1.0
    else:
        tolerance = min((b - a for a, b in pairwise(levels)), default=1.0) / 4
    varies = bool(limits) or len(levels) > 1
    return varies, Condition(known.name, known.unit, low, high if high > low else low + 1.0, tolerance)


def _selections(used: Sequence[SelectedRecording], classes: Sequence[str]) -> list[SegmentSelection]:
    """Return one selection per operating condition and set of classes that were recorded there."""
    points: dict[str, dict[str, set[str]]] = {}
    for one in used:
        points.setdefault(one.point, {}).setdefault(one.run, set()).add(one.entry.label)
    found = []
    for point, runs in points.items():
        groups: dict[tuple[str, ...], list[str]] = {}
        for run, labels in runs.items():
            groups.setdefault(tuple(label for label in classes if label in labels), []).append(run)
        for states, names in groups.items():
            some = () if len(states) == len(classes) else states
            found.append(SegmentSelection(point, names[0], also=tuple(names[1:]), whole=True, states=some))
    return found


def _levels_key(entry: RecordingEntry, conditions: Sequence[ConditionEntry]) -> list[float]:
    """Order by the levels, so that neighbouring conditions stand side by side; measured ones come by their middle."""
    return [entry.levels.get(one.name, sum(entry.ranges.get(one.name, ())) / 2) for one in conditions]


def _point(entry: RecordingEntry, conditions: Sequence[Condition]) -> str:
    levels, ranges = entry.levels, entry.ranges
    parts = [
        level_name(one, levels[one.name]) if one.name in levels else span_name(one, *ranges[one.name])
        for one in conditions
    ]
    return ", ".join(parts) or "as recorded"
