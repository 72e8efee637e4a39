from __future__ import annotations

import pytest

from cgsa.bench.figures import Drawing, all_drawings
from tests.bench.figures.made_records import make_record


def test_one_drawing_of_each_kind_that_the_records_support(drawings: dict[str, Drawing]) -> None:
    assert list(drawings) == ["totals-gearbox", "curves-gearbox", "intervals-gearbox", "transitions-gearbox"]
    for name, drawing in drawings.items():
        assert drawing.table.name == name
        assert all(len(row) == len(drawing.table.header) for row in drawing.table.rows)


@pytest.mark.parametrize("gated", [False, True])
def test_one_record_is_enough(*, gated: bool) -> None:
    names = [drawing.name for drawing in all_drawings([make_record(gated=gated)])]
    assert names[:2] == ["totals-gearbox", "curves-gearbox"]
    assert len(names) == (4 if gated else 2)


def test_no_records_no_drawings() -> None:
    assert all_drawings([]) == []


def test_drawings_are_grouped_by_scenario() -> None:
    records = [make_record(scenario=name, gated=False) for name in ("motor", "gearbox")]
    names = [drawing.name for drawing in all_drawings(records)]
    assert names == ["totals-motor", "curves-motor", "totals-gearbox", "curves-gearbox"]


def test_names_are_not_read_as_formulas() -> None:
    for drawing in all_drawings([make_record("$\\broken$ <&>", "a_$fault$", scenario="$s$")]):
        assert drawing.svg
