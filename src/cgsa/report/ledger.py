"""The figure of a ledger: verdicts, confidence, and the reasons for adapting to windows or not."""

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
from cgsa.report.figures import COLOURS, MAX_POINTS, response_label
from cgsa.report.timeline import LedgerTimeline, ResponsePoints

INTERVALS = 300
"""More intervals would be narrower than a line."""
CLASS_COLOURS = ("#e3efe6", "#e08e9a", "#ecc57c", "#8fb0d3", "#b3a2cc", "#dba9c4", "#9fcace", "#bfa98a", "#a0a0a0")
"""Light, because the confidence is drawn over them; the first, for the healthy class, is the palest."""
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
    COVERED: ("covered by training", COLOURS[0]),
    CHANCE: ("estimated accuracy", "black"),
}
CAPTION = (
    "From top to bottom: the shares of the verdicts, with the mean confidence; the residual response of single windows "
    "to each condition, with the mean of the queue and the windows used for adaptation; the reasons for adapting to "
    "windows or not, as shares over time; if recorded, the trust in the method: the shares of windows on which the "
    "frozen model agrees and that are covered by training, and the mean estimated accuracy."
)


def figure_timeline(
    windows: int, seconds_per_window: float, classes: Sequence[str], rows: int | None = None
) -> LedgerTimeline:
    """Return an empty timeline at the resolution of a figure, for ``rows`` of the windows of a stream; default: all."""
    keep_every = max(1, -(-(windows if rows is None else rows) // MAX_POINTS))
    return LedgerTimeline(windows, seconds_per_window, intervals=INTERVALS, classes=classes, keep_every=keep_every)


def ledger_figure(timeline: LedgerTimeline, title: str) -> Figure:
    """Draw verdicts with confidence, residual response, reasons and trust over one time axis."""
    # Names of classes and recordings come from outside: a dollar sign must not start a formula.
    with rc_context({"text.parse_math": False}):
        points: Mapping[str, ResponsePoints | None] = timeline.points or {"": None}
        trusted = bool(TRUST.keys() & timeline.means.keys())
        ratios = (1.2, *[1.5] * len(points), 1.2, *([1.0] if trusted else []))
        figure = Figure(figsize=(10, 2 + 2 * sum(ratios)), layout="constrained")
        axes = figure.subplots(len(ratios), 1, sharex=True, height_ratios=ratios)
        figure.suptitle(title, fontsize=11)
        _verdicts(axes[0], timeline)
        for axis, (condition, kept) in zip(axes[1:], points.items(), strict=False):
            axis.set_ylabel(response_label(condition))
            _response(axis, kept)
        _stack(axes[1 + len(points)], timeline, "reason", REASON_COLOURS, "reasons")
        if trusted:
            _trust(axes[-1], timeline)
        for axis in axes:
            axis.margins(x=0)
            if axis.get_legend_handles_labels()[0]:
                axis.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8, markerscale=3)
        axes[-1].set_xlabel("time along the stream in s")
    return figure


def _verdicts(axis: Axes, timeline: LedgerTimeline) -> None:
    colours = dict(zip(timeline.classes, cycle(CLASS_COLOURS), strict=False))
    _stack(axis, timeline, "verdict", colours, "verdicts and\nconfidence")
    axis.plot(_centres(timeline), timeline.means["confidence"], color="black", linewidth=1, label="mean confidence")


def _trust(axis: Axes, timeline: LedgerTimeline) -> None:
    for name, (label, colour) in TRUST.items():
        if name in timeline.means:
            axis.plot(_centres(timeline), timeline.means[name], color=colour, linewidth=1, label=label)
    axis.set_ylim(-0.03, 1.03)
    axis.set_ylabel("trust")


def _centres(timeline: LedgerTimeline) -> DoubleArray:
    return (timeline.borders[:-1] + timeline.borders[1:]) / 2


def _stack(axis: Axes, timeline: LedgerTimeline, name: str, colours: Mapping[str, str], title: str) -> None:
    """Fill the axis with the stacked shares of a column; intervals without windows stay empty."""
    more = cycle(COLOURS)
    below = np.zeros(len(timeline.windows))
    for label, share in timeline.shares(name).items():
        above = below + share
        # A step ends where the next begins, so the last height appears twice.
        low, high = (np.append(edge, edge[-1:]) for edge in (below, above))
        axis.fill_between(
            timeline.borders, low, high, step="post", label=label, color=colours.get(label) or next(more), linewidth=0
        )
        below = above
    axis.set_ylim(0, 1.03)
    axis.set_ylabel(title)


def _response(axis: Axes, points: ResponsePoints | None) -> None:
    if points is None:
        axis.text(0.5, 0.5, "the method does not use it", ha="center", transform=axis.transAxes)
        return
    for mask, colour, name in (
        (~points.accepted, "#bbbbbb", "rejected"),
        (points.accepted, COLOURS[2], "used for adaptation"),
    ):
        axis.scatter(points.time[mask], points.response[mask], s=3, color=colour, label=name, rasterized=True)
    # Dots, not a line: there are no values between the windows shown.
    axis.plot(points.time, points.queue_mean, ".", color="#333333", markersize=1, label="mean of the queue")
    axis.grid(visible=True, color="#e6e6e6", linewidth=0.5)
    axis.set_axisbelow(True)
