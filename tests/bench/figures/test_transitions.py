from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from cgsa.bench.figures import Drawing, all_drawings
from cgsa.bench.figures.transitions import WINDOWS_PER_POINT
from cgsa.bench.stream_details import Transition
from cgsa.bench.tables import Table
from tests.bench.figures.made_records import RECORDS, make_record


def columns(table: Table, *names: str) -> list[tuple[str, ...]]:
    places = [table.header.index(name) for name in names]
    return [tuple(row[place] for place in places) for row in table.rows]


def slow_point(name: str, begin: int, values_of: Callable[[Transition], Sequence[float | None]]) -> tuple[float, float]:
    trials = []
    for trial in range(2):
        values = []
        for record in RECORDS:
            for change in record.details.transitions:
                if record.trial == trial and change.name == name:
                    for place, value in enumerate(values_of(change)):
                        if begin <= change.begin + place < begin + WINDOWS_PER_POINT and value is not None:
                            values.append(value)
        if values:
            trials.append(sum(values) / len(values))
    mean = sum(trials) / len(trials)
    return mean, math.sqrt(sum((value - mean) ** 2 for value in trials) / len(trials))


@pytest.mark.parametrize(("name", "begin"), [("onset", -16), ("onset", 0), ("C2 to C3", -8), ("C2 to C3", 376)])
def test_transitions_equal_a_loop_over_the_windows(drawings: dict[str, Drawing], name: str, begin: int) -> None:
    (row,) = [row for row in drawings["transitions-gearbox"].table.rows if row[:2] == (name, str(begin))]
    spreads = [
        slow_point(name, begin, lambda change: change.accepted),
        slow_point(name, begin, lambda change: change.right),
        slow_point(name, begin, lambda change: change.deviation),
    ]
    assert row[2:] == (str(begin + WINDOWS_PER_POINT - 1), *(f"{value:.4f}" for spread in spreads for value in spread))


def test_the_share_axis_begins_near_the_lowest_share_and_ends_at_one() -> None:
    def always(change: Transition) -> Transition:
        count = len(change.right)
        return replace(change, accepted=(1,) * count, right=(0, *(1,) * (count - 1)))

    records = []
    for trial in range(2):
        record = make_record(trial=trial)
        changes = tuple(map(always, record.details.transitions))
        records.append(replace(record, details=replace(record.details, transitions=changes)))
    (drawing,) = [each for each in all_drawings(records) if each.name == "transitions-gearbox"]
    low, high = drawing.figure.axes[0].get_ylim()
    lowest = 1 - 1 / WINDOWS_PER_POINT
    assert lowest - 0.1 < low < lowest
    assert 1 < high < 1.1


def test_a_transition_with_an_unfilled_queue_has_no_deviation_yet(drawings: dict[str, Drawing]) -> None:
    rows = columns(drawings["transitions-gearbox"].table, "change", "from window", "accepted", "deviation")
    early = next(row for row in rows if row[0] == "onset")
    assert early[1] == "-32"
    assert early[2]
    assert not early[3]
