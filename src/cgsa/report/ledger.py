"""The figure of a ledger: what was seen, how sure, and why it was learnt from or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cgsa.diagnosis.trust import CHANCE, COVERED
from cgsa.ledger.rows import DEVIATES, LEARNT, NEITHER, NEVER_LEARNS, NOT_CHOSEN, NOT_CONFIDENT, WARMING_UP
from cgsa.metrics.accuracy import DoubleArray
from cgsa.online.evidence import AGREES_WITH_SOURCE
from cgsa.online.reference import BEFORE_REFERENCE, IN_HEALTHY_SPAN, REFERENCE_READY
from cgsa.report.figures import COLOURS, MOST_POINTS, response_label
from cgsa.report.timeline import LedgerTimeline, Points

STRETCHES = 300
"""More stretches than this are narrower than a line."""
CLASS_COLOURS = ("#e3efe6", "#e08e9a", "#ecc57c", "#8fb0d3", "#b3a2cc", "#dba9c4", "#9fcace", "#bfa98a", "#a0a0a0")
"""Light, for the confidence is drawn over them; the healthy class, which comes first, is the palest."""
REASON_COLOURS = {
    LEARNT: COLOURS[2],
    WARMING_UP: "#c8c8c8",
    DEVIATES: COLOURS[0],
    NOT_CONFIDENT: COLOURS[3],
    NEITHER: COLOURS[1],
    NOT_CHOSEN: "#8a8a8a",
    NEVER_LEARNS: "#8a8a8a",
    IN_HEALTHY_SPAN: COLOURS[2],
    BEFORE_REFERENCE: "#c8c8c8",
    REFERENCE_READY: "#e3efe6",
}
TRUST = {
    AGREES_WITH_SOURCE: ("frozen model agrees", COLOURS[1]),
    COVERED: ("where training was", COLOURS[0]),
    CHANCE: ("chance to be right", "black"),
}
CAPTION = (
    "From top to bottom: how the verdicts share the windows, with their mean confidence; the residual response of "
    "single windows to each condition with the mean of the queue, and which of them were learnt from; why windows were "
    "learnt from or not, as shares over time; where it was kept, how far to trust the method: shares of windows of "
    "which the frozen model says the same and which lie where training was, and the mean chance to be right."
)


def figure_course(
    windows: int, seconds_per_window: float, classes: Sequence[str], rows: int | None = None
) -> LedgerTimeline:
    """Return an empty course, as fine as a figure can show, for ``rows`` of a stream's windows; default: all."""
    every = max(1, -(-(windows if rows is None else rows) // MOST_POINTS))
    return LedgerTimeline(windows, seconds_per_window, stretches=STRETCHES, classes=classes, every=every)


def ledger_figure(course: LedgerTimeline, title: str) -> Figure:
    """Draw verdicts with confidence, residual response, reasons and trust over one time axis."""
    # Names of classes and recordings come from outside: a dollar sign in one begins no formula.
    with rc_context({"text.parse_math": False}):
        points: Mapping[str, Points | None] = course.points or {"": None}
        trusted = bool(TRUST.keys() & course.means.keys())
        ratios = (1.2, *[1.5] * len(points), 1.2, *([1.0] if trusted else []))
        figure = Figure(figsize=(10, 2 + 2 * sum(ratios)), layout="constrained")
        axes = figure.subplots(len(ratios), 1, sharex=True, height_ratios=ratios)
        figure.suptitle(title, fontsize=11)
        _verdicts(axes[0], course)
        for axis, (condition, kept) in zip(axes[1:], points.items(), strict=False):
            axis.set_ylabel(response_label(condition))
            _response(axis, kept)
        _reasons(axes[1 + len(points)], course)
        if trusted:
            _trust(axes[-1], course)
        for axis in axes:
            axis.margins(x=0)
            if axis.get_legend_handles_labels()[0]:
                axis.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8, markerscale=3)
        axes[-1].set_xlabel("time along the stream in s")
    return figure


def _verdicts(axis: Axes, course: LedgerTimeline) -> None:
    _stack(axis, course, "verdict", dict(zip(course.classes, cycle(CLASS_COLOURS), strict=False)))
    axis.plot(_centres(course), course.means["confidence"], color="black", linewidth=1, label="mean confidence")
    axis.set_ylabel("verdicts and\nconfidence")


def _reasons(axis: Axes, course: LedgerTimeline) -> None:
    _stack(axis, course, "reason", REASON_COLOURS)
    axis.set_ylabel("reasons")


def _trust(axis: Axes, course: LedgerTimeline) -> None:
    for name, (label, colour) in TRUST.items():
        if name in course.means:
            axis.plot(_centres(course), course.means[name], color=colour, linewidth=1, label=label)
    axis.set_ylim(-0.03, 1.03)
    axis.set_ylabel("trust")


def _centres(course: LedgerTimeline) -> DoubleArray:
    return (course.borders[:-1] + course.borders[1:]) / 2


def _stack(axis: Axes, course: LedgerTimeline, name: str, colours: Mapping[str, str]) -> None:
    """Fill the axis with the shares of a column, one on top of the other; stretches without windows stay empty."""
    more = cycle(COLOURS)
    below = np.zeros(len(course.windows))
    for word, share in course.shares(name).items():
        above = below + share
        # A step ends where the next begins, so the last height is told twice.
        low, high = (np.append(edge, edge[-1:]) for edge in (below, above))
        axis.fill_between(
            course.borders, low, high, step="post", label=word, color=colours.get(word) or next(more), linewidth=0
        )
        below = above
    axis.set_ylim(0, 1.03)


def _response(axis: Axes, points: Points | None) -> None:
    if points is None:
        axis.text(0.5, 0.5, "the method does not look at it", ha="center", transform=axis.transAxes)
        return
    for mask, colour, name in ((~points.learnt, "#bbbbbb", "rejected"), (points.learnt, COLOURS[2], "learnt from")):
        axis.scatter(points.time[mask], points.response[mask], s=3, color=colour, label=name, rasterized=True)
    # Dots, no line: between windows that were not chosen there is nothing to tell.
    axis.plot(points.time, points.queue_mean, ".", color="#333333", markersize=1, label="mean of the queue")
    axis.grid(visible=True, color="#e6e6e6", linewidth=0.5)
    axis.set_axisbelow(True)
