"""The page that compares an old and a new model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from cgsa.decide.decision import UNKNOWN
from cgsa.evaluation.model_comparison import ComparedStream, ModelComparison, StateSpan
from cgsa.report.comparison_tables import (
    COMPARISON_NOTE,
    compared_stream_table,
    comparison_sentences,
    disagreement_table,
    side_tables,
)
from cgsa.report.figures import COLOURS, to_svg
from cgsa.report.page import HtmlPage, render_page

MAX_STREAMS = 30
"""Streams that are drawn: those that differ most."""
HEALTHY_COLOUR, UNKNOWN_COLOUR = "#9cc5a1", "#b0b0b0"
COURSE_CAPTION = (
    "Verdicts over time: the old model above, the new one below, and a red line where they differ. The recording that "
    "is judged comes last; before a fault, the machine is watched healthy."
)


def comparison_page(found: ModelComparison) -> HtmlPage:
    """Return the page of a comparison."""
    shown = sorted(found.streams, key=lambda one: -one.differing_seconds)[:MAX_STREAMS]
    return render_page(
        "comparison.html",
        title=f"{found.old} and {found.new}",
        sentences=comparison_sentences(found),
        sides=side_tables(found),
        course=to_svg(course_figure(shown)),
        course_caption=COURSE_CAPTION,
        differences=disagreement_table(found),
        streams=compared_stream_table(found),
        facts=[("old model", found.old), ("new model", found.new), ("recordings", found.data)],
        small_print=COMPARISON_NOTE if found.labelled else "",
    )


def course_figure(streams: Sequence[ComparedStream]) -> Figure:
    """Draw the verdicts of both models over each stream."""
    every = [span.state for one in streams for run in (one.old, one.new) for span in run.verdicts]
    first = {run.verdicts[0].state for one in streams for run in (one.old, one.new)}
    names = sorted(dict.fromkeys(every), key=lambda name: (name not in first, name))
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
    colours |= {names[0]: HEALTHY_COLOUR, UNKNOWN: UNKNOWN_COLOUR}
    # Names of classes and files come from outside: a dollar sign must not start a formula.
    with rc_context({"text.parse_math": False}):
        figure = Figure(figsize=(9, 1.2 + 0.5 * len(streams)), layout="constrained")
        axis = figure.subplots()
        for row, one in enumerate(streams):
            _draw_course(axis, one.old.verdicts, row - 0.2, colours)
            _draw_course(axis, one.new.verdicts, row + 0.2, colours)
            for each in one.disagreements:
                axis.plot([each.begin, each.end], [row, row], color="#d1495b", linewidth=2)
        axis.set_yticks(range(len(streams)), [PurePosixPath(one.name).stem for one in streams])
        axis.set_ylim(len(streams) - 0.5, -0.5)
        axis.set_xlabel("seconds of the stream")
        handles = [Patch(color=colours[name], label=name) for name in names]
        axis.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, fontsize=9)
    return figure


def _draw_course(axis: Axes, spans: Sequence[StateSpan], place: float, colours: Mapping[str, str]) -> None:
    for span in spans:
        axis.barh(place, span.end - span.begin, left=span.begin, height=0.3, color=colours[span.state])
