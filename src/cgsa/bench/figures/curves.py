"""Cumulative and real-time accuracy of every entry along the streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cgsa.bench.figures.drawing import Drawing
from cgsa.bench.figures.line_styles import line_styles
from cgsa.bench.figures.names import cut, words
from cgsa.bench.figures.selection import faults_of
from cgsa.bench.figures.style import QUIET, draw_gridlines
from cgsa.bench.figures.timeline import StreamTimeline, mean_curves, stream_timeline
from cgsa.bench.records import RunRecord
from cgsa.bench.tables import Table

MOST_LINES = 24
"""Beyond this many entries, lines in one panel cannot be told apart."""
SHORT = 10
"""The points of a line with no more of them are drawn, too."""


def draw_curves(records: Sequence[RunRecord], scenario: str) -> Iterator[Drawing]:
    """Draw a line an entry and a column a fault; nothing where there are too many lines."""
    faults, looks = faults_of(records), line_styles(records)
    if len(looks) > MOST_LINES:
        return
    names = {entry: cut(entry) for entry in looks}
    legend = 0.9 + 0.08 * max(len(name) for name in names.values())
    figure = Figure(figsize=(3.3 * len(faults) + legend, 6.6), layout="constrained")
    axes = figure.subplots(2, len(faults), sharex="col", sharey="row", squeeze=False, height_ratios=(1, 1.2))
    body = []
    for fault, (upper, lower) in zip(faults, axes.T, strict=True):
        stream = [record for record in records if record.fault == fault]
        for entry, curve in mean_curves(stream).items():
            look = looks[entry]
            for axis, values in ((upper, curve.cumulative), (lower, curve.realtime)):
                line = axis.plot(curve.seen, values, color=look.colour, linewidth=look.width, label=entry)[0]
                line.set_linestyle((0.0, look.dash or None))
                line.set_alpha(look.opacity)
                line.set_zorder(2 + look.width)  # the strong ones on top
                line.set_marker("o" if len(curve.seen) <= SHORT else "")
                line.set_markersize(3)
            body += [
                (fault, entry, str(seen), f"{cumulative:.4f}", f"{realtime:.4f}")
                for seen, cumulative, realtime in zip(curve.seen, curve.cumulative, curve.realtime, strict=True)
            ]
        where = stream_timeline(stream)
        _mark_course(upper, where)
        _mark_course(lower, where)
        for name, begin in where.begins.items():
            upper.text(begin, 1.01, f" {name}", transform=upper.get_xaxis_transform(), color=QUIET)
        upper.set_title(cut(words(fault)), pad=18)
        lower.set_xlabel("windows seen")
    axes[0, 0].set_ylabel("cumulative accuracy")
    axes[1, 0].set_ylabel("real-time accuracy")
    lines = {line.get_label(): line for axis in axes[0] for line in axis.get_lines() if line.get_label() in looks}
    figure.legend([lines[entry] for entry in names], list(names.values()), loc="outside right upper", frameon=False)
    yield Drawing(
        f"curves-{scenario}",
        f"Accuracy along the stream of the {words(scenario)}",
        "Above: share of right windows so far. Below: share of right windows in each batch. A point a batch, mean over "
        "the trials. Grey lines part the stages; a dashed line is the onset of the fault.",
        figure,
        Table(f"curves-{scenario}", ("fault", "method", "windows seen", "cumulative", "real-time"), tuple(body)),
    )


def _mark_course(axis: Axes, where: StreamTimeline) -> None:
    for begin in list(where.begins.values())[1:]:
        axis.axvline(begin, color="#bbbbbb", linewidth=1, zorder=0)
    if where.onset is not None:
        axis.axvline(where.onset, color=QUIET, linewidth=1, linestyle="--", zorder=0)
    axis.set_xlim(0, where.end)
    draw_gridlines(axis)
