"""Cumulative and real-time accuracy of every entry along the streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cgsa.bench.figures.drawing import Drawing
from cgsa.bench.figures.line_styles import THIN, LineStyle, line_styles
from cgsa.bench.figures.selection import faults_of
from cgsa.bench.figures.style import GREY, draw_gridlines, readable_name, shorten_name
from cgsa.bench.figures.timeline import StreamTimeline, mean_curves, stream_timeline
from cgsa.bench.records import RunRecord, number

MOST_LINES = 24
"""With more entries the lines in one panel are indistinguishable."""
MOST_NAMED = 6
"""With more entries, those named are CGSA, the frozen models and the most accurate of the others; the rest are grey."""
OTHERS = LineStyle("#c4c4c4", (), THIN)
SHORT = 10
"""Lines with at most this many points get markers."""


def draw_curves(records: Sequence[RunRecord], scenario: str) -> Iterator[Drawing]:
    """Draw one line per entry and one column per fault; nothing if there are too many lines."""
    faults, styles = faults_of(records), line_styles(records)
    if len(styles) > MOST_LINES:
        return
    named = named_entries(records, styles)
    names = {entry: shorten_name(entry) for entry in named}
    others = len(styles) - len(named)
    legend = 0.9 + 0.08 * max(len(name) for name in names.values())
    figure = Figure(figsize=(3.3 * len(faults) + legend, 6.6), layout="constrained")
    axes = figure.subplots(2, len(faults), sharex="col", sharey="row", squeeze=False, height_ratios=(1, 1.2))
    body = []
    for fault, (upper, lower) in zip(faults, axes.T, strict=True):
        stream = [record for record in records if record.fault == fault]
        for entry, curve in mean_curves(stream).items():
            style = styles[entry] if entry in names else OTHERS
            for axis, values in ((upper, curve.cumulative), (lower, curve.realtime)):
                line = axis.plot(curve.seen, values, color=style.colour, linewidth=style.width, label=entry)[0]
                line.set_linestyle((0.0, style.dash or None))
                line.set_alpha(style.opacity)
                line.set_zorder(2 + style.width if entry in names else 2)  # thick lines on top
                line.set_marker("o" if len(curve.seen) <= SHORT else "")
                line.set_markersize(3)
            body += [
                (fault, entry, str(seen), f"{cumulative:.4f}", f"{realtime:.4f}")
                for seen, cumulative, realtime in zip(curve.seen, curve.cumulative, curve.realtime, strict=True)
            ]
        timeline = stream_timeline(stream)
        _mark_stages(upper, timeline)
        _mark_stages(lower, timeline)
        for name, begin in timeline.begins.items():
            upper.text(begin, 1.01, f" {name}", transform=upper.get_xaxis_transform(), color=GREY)
        upper.set_title(shorten_name(readable_name(fault)), pad=18)
        lower.set_xlabel("windows seen")
    axes[0, 0].set_ylabel("cumulative accuracy")
    axes[1, 0].set_ylabel("real-time accuracy")
    lines = {line.get_label(): line for axis in axes[0] for line in axis.get_lines() if line.get_label() in styles}
    shown = [lines[entry] for entry in names] + [line for entry, line in lines.items() if entry not in names][:1]
    texts = [*names.values(), *([f"{others} others"] if others else [])]
    figure.legend(shown, texts, loc="outside right upper", frameon=False)
    yield Drawing(
        f"curves-{scenario}",
        f"Accuracy along the stream of the {readable_name(scenario)}",
        "Above: share of correct windows so far. Below: share of correct windows in each batch. One point per batch, "
        "mean over the trials. Vertical lines separate the stages; the dashed one is the onset of the fault."
        + (" CGSA, the frozen models and the most accurate others are named." if others else ""),
        figure,
        ("fault", "method", "windows seen", "cumulative", "real-time"),
        tuple(body),
    )


def named_entries(records: Sequence[RunRecord], styles: Mapping[str, LineStyle]) -> list[str]:
    """Return the entries whose lines are named, in the order of the styles."""
    if len(styles) <= MOST_NAMED:
        return list(styles)
    accuracy = {
        entry: np.mean([number(record.whole_stream, "accuracy") for record in records if record.entry == entry])
        for entry in styles
    }
    first = sorted(styles, key=lambda entry: (styles[entry].width <= THIN, -accuracy[entry]))[:MOST_NAMED]
    return [entry for entry in styles if entry in first]


def _mark_stages(axis: Axes, timeline: StreamTimeline) -> None:
    for begin in list(timeline.begins.values())[1:]:
        axis.axvline(begin, color="#bbbbbb", linewidth=1, zorder=0)
    if timeline.onset is not None:
        axis.axvline(timeline.onset, color=GREY, linewidth=1, linestyle="--", zorder=0)
    axis.set_xlim(0, timeline.end)
    draw_gridlines(axis)
