from __future__ import annotations

import pytest

from cgsa.bench.figures import Drawing, all_drawings
from tests.bench.figures.made_records import RECORDS, make_record
from tests.bench.figures.reading import texts


def test_intervals_are_pooled_and_empty_ones_marked(drawings: dict[str, Drawing]) -> None:
    found = [r.details.intervals for r in RECORDS if r.details.intervals is not None]
    windows, right = sum(each.windows[5] for each in found), sum(each.right[5] for each in found)
    total = sum(sum(each.windows) for each in found)
    drawing = drawings["intervals-gearbox"]
    assert drawing.table.rows[5] == (
        "0.04 to 0.05",
        str(windows),
        f"{windows / total:.4f}",
        f"{right / windows:.4f}",
    )
    assert drawing.table.rows[2] == ("0.01 to 0.02", "0", "0.0000", "")
    assert drawing.table.rows[-1][0] == "0.3 or more"
    assert texts(drawing).count("no windows") == 1


def test_intervals_of_the_first_guided_method_where_none_is_named_as_the_papers() -> None:
    records = [make_record("frozen", method="source", gated=False), make_record("A"), make_record("B")]
    (drawing,) = [drawing for drawing in all_drawings(records) if drawing.name == "intervals-gearbox"]
    assert "of A within" in drawing.caption


@pytest.mark.parametrize(("tau", "shown"), [(0.02, True), (0.5, False)])
def test_the_threshold_is_marked_if_the_intervals_have_a_scale(tau: float, *, shown: bool) -> None:
    (drawing,) = [each for each in all_drawings([make_record(settings={"tau": tau})]) if "intervals" in each.name]
    assert (f" threshold {tau:g}" in texts(drawing)) == shown
