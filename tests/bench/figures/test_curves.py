from __future__ import annotations

import numpy as np

from cgsa.bench.figures import Drawing, all_drawings
from cgsa.bench.figures.curves import MOST_LINES, MOST_NAMED, OTHERS
from tests.bench.figures.made_records import RECORDS, make_record


def test_curves_are_what_a_loop_over_the_batches_finds(drawings: dict[str, Drawing]) -> None:
    mine = [r.details.batches for r in RECORDS if (r.entry, r.fault) == ("CoTTA", "teeth_break")]
    expected = []
    for batch in range(18):
        cumulative = sum(sum(b.right[: batch + 1]) / sum(b.windows[: batch + 1]) for b in mine) / len(mine)
        realtime = sum(b.right[batch] / b.windows[batch] for b in mine) / len(mine)
        expected.append((str(100 * (batch + 1)), f"{cumulative:.4f}", f"{realtime:.4f}"))
    drawing = drawings["curves-gearbox"]
    found = [row[2:] for row in drawing.table.rows if row[:2] == ("teeth_break", "CoTTA")]
    assert found == expected
    upper = drawing.figure.axes[1]
    (line,) = [line for line in upper.get_lines() if line.get_label() == "CoTTA"]
    drawn = [f"{float(value):.4f}" for value in np.asarray(line.get_ydata())]
    assert drawn == [row[1] for row in expected]
    assert upper.get_title() == "teeth break"


def test_strong_lines_lie_on_top_whatever_the_order(drawings: dict[str, Drawing]) -> None:
    for axis in drawings["curves-gearbox"].figure.axes:
        lines = sorted(axis.get_lines(), key=lambda line: line.get_zorder())
        assert [line.get_label() for line in lines][-3:] == ["CoTTA", "SupCon", "CGSA"]


def test_at_most_six_lines_are_named_and_the_rest_is_grey() -> None:
    records = [make_record(f"m{number}", method="tent") for number in range(9)]
    records += [make_record("SupCon", method="source"), make_record()]
    (figure,) = [drawing.figure for drawing in all_drawings(records) if drawing.name == "curves-gearbox"]
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len(texts) == MOST_NAMED + 1
    assert {"SupCon", "CGSA"} <= set(texts)
    assert texts[-1] == "5 others"
    grey = [line.get_label() for line in figure.axes[0].get_lines() if line.get_color() == OTHERS.colour]
    assert len(grey) == 5
    assert not set(grey) & set(texts)


def test_too_many_lines_are_not_drawn() -> None:
    records = [make_record(f"m{number}", gated=False) for number in range(MOST_LINES + 1)]
    assert [drawing.name for drawing in all_drawings(records)] == ["totals-gearbox"]
