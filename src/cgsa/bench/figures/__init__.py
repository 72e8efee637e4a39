"""The paper's figures from records, each with its numbers.

They use matplotlib's objects directly, so no figure stays open globally.
"""

from __future__ import annotations

from collections.abc import Sequence

from cgsa.bench.figures.batch_sizes import draw_batch_sizes
from cgsa.bench.figures.curves import draw_curves
from cgsa.bench.figures.drawing import Drawing
from cgsa.bench.figures.grids import draw_grids
from cgsa.bench.figures.intervals import draw_intervals
from cgsa.bench.figures.line_styles import line_styles
from cgsa.bench.figures.style import FROZEN_COLOUR, figure_style
from cgsa.bench.figures.timeline import mean_curves, stream_timeline
from cgsa.bench.figures.totals import draw_totals
from cgsa.bench.figures.transitions import draw_transitions
from cgsa.bench.records import RunRecord, grouped

KINDS = (draw_totals, draw_curves, draw_intervals, draw_transitions, draw_grids, draw_batch_sizes)
"""The kinds of figures, in the order of the report; each draws what the records support."""


def all_drawings(records: Sequence[RunRecord]) -> list[Drawing]:
    """Return every figure that the records support, scenario by scenario."""
    drawings: list[Drawing] = []
    with figure_style():
        for scenario, mine in grouped(records, lambda record: record.scenario).items():
            for draw in KINDS:
                drawings += draw(mine, scenario)
    return drawings


__all__ = ["FROZEN_COLOUR", "Drawing", "all_drawings", "line_styles", "mean_curves", "stream_timeline"]
