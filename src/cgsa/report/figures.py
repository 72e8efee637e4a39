"""Figures of a stream. They use matplotlib's objects directly, so no global state changes."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cgsa.metrics.accuracy import DoubleArray, cumulative_accuracy, realtime_accuracy
from cgsa.metrics.stream import StreamTrace
from cgsa.online.evidence import evidence_by_condition

COLOURS = ("#3b6ea8", "#d1495b", "#2e8b57", "#e0a030", "#7b5ea7", "#4f4f4f")
MAX_POINTS = 6000
"""Points of a scatter plot; more would only enlarge the file."""


@dataclass(frozen=True, eq=False)
class StreamComparison:
    """Several methods on one stream, with the labels for its figures."""

    title: str
    traces: Mapping[str, StreamTrace]
    """The output of each method, over the same windows."""
    stages: tuple[str, ...]
    seconds_per_window: float
    conditions: tuple[str, ...]
    """Axis label of each condition: name and unit."""

    @property
    def first(self) -> StreamTrace:
        """The first trace; truth, stages and conditions are the same in all."""
        return next(iter(self.traces.values()))

    @property
    def gated(self) -> StreamTrace | None:
        """The first trace of a method that adapts by the residual response; None if there is none."""
        learning = (trace for trace in self.traces.values() if trace.accepted is not None)
        return next((trace for trace in learning if evidence_by_condition("response", trace.evidence)), None)

    @property
    def time(self) -> DoubleArray:
        """Start of each window, in seconds from the beginning of the stream."""
        return np.arange(len(self.first.label), dtype=np.float64) * np.float64(self.seconds_per_window)


def overview_figure(comparison: StreamComparison) -> Figure:
    """Draw conditions, cumulative and real-time accuracy, residual responses and confidence over one time axis."""
    responses = evidence_by_condition("response", comparison.gated.evidence) if comparison.gated else [""]
    panels: list[tuple[float, Callable[[Axes, StreamComparison], None]]] = [
        *((1.0, partial(_condition, place=place)) for place in range(len(comparison.conditions))),
        (1.3, _cumulative),
        (1.3, _realtime),
        *((1.6, partial(_response, condition=condition)) for condition in responses),
        (1.1, _confidence),
    ]
    figure = Figure(figsize=(10, 1 + 2 * len(panels)), layout="constrained")
    axes = figure.subplots(len(panels), 1, sharex=True, height_ratios=[height for height, _ in panels])
    figure.suptitle(comparison.title, fontsize=11)
    for (_, panel), axis in zip(panels, axes, strict=True):
        panel(axis, comparison)
        _mark_stages(axis, comparison)
    _name_stages(axes[0], comparison)
    axes[-1].set_xlabel("time along the stream in s")
    return figure


def response_label(condition: str) -> str:
    """Return the axis label of a residual response; a single condition has an empty name."""
    return f"residual response\nto {condition}" if condition else "residual condition\nresponse"


def to_svg(figure: Figure) -> str:
    """Return the figure as an SVG element to embed in a page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", dpi=110, metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _condition(axis: Axes, comparison: StreamComparison, *, place: int) -> None:
    if comparison.first.conditions is not None:
        axis.plot(comparison.time, comparison.first.conditions[:, place], color="#333333", linewidth=1)
    axis.set_ylabel(comparison.conditions[place])


def _cumulative(axis: Axes, comparison: StreamComparison) -> None:
    for (name, trace), colour in zip(comparison.traces.items(), COLOURS, strict=False):
        axis.plot(comparison.time, cumulative_accuracy(trace.correct), label=name, color=colour, linewidth=1.5)
    axis.set_ylabel("cumulative\naccuracy")
    axis.set_ylim(-0.03, 1.03)
    axis.legend(loc="lower left", fontsize=8)


def _realtime(axis: Axes, comparison: StreamComparison) -> None:
    for (name, trace), colour in zip(comparison.traces.items(), COLOURS, strict=False):
        begins = comparison.time[:: trace.batch_size]
        axis.plot(begins, realtime_accuracy(trace.correct, trace.batch_size), label=name, color=colour, linewidth=1.2)
    axis.set_ylabel("real-time accuracy\n(batch by batch)")
    axis.set_ylim(-0.03, 1.03)


def _response(axis: Axes, comparison: StreamComparison, *, condition: str) -> None:
    axis.set_ylabel(response_label(condition))
    trace = comparison.gated
    if trace is None:
        axis.text(0.5, 0.5, "no method uses it", ha="center", transform=axis.transAxes)
        return
    response, queue_mean = (
        evidence_by_condition(name, trace.evidence)[condition] for name in ("response", "queue_mean")
    )
    accepted = np.asarray(trace.accepted)
    shown = np.arange(0, len(accepted), max(1, len(accepted) // MAX_POINTS))
    for mask, colour, name in ((~accepted, "#bbbbbb", "rejected"), (accepted, COLOURS[2], "accepted for adaptation")):
        chosen = shown[mask[shown]]
        axis.scatter(comparison.time[chosen], response[chosen], s=3, color=colour, label=name, rasterized=True)
    axis.plot(comparison.time, queue_mean, color="#333333", linewidth=0.8, label="mean of the queue")
    axis.legend(loc="lower left", fontsize=8, markerscale=3)


def _confidence(axis: Axes, comparison: StreamComparison) -> None:
    for (name, trace), colour in zip(comparison.traces.items(), COLOURS, strict=False):
        begins = np.arange(0, len(trace.label), trace.batch_size)
        mean = np.add.reduceat(trace.confidence, begins) / np.diff([*begins, len(trace.label)])
        axis.plot(comparison.time[begins], mean, label=name, color=colour, linewidth=1.2)
    axis.set_ylabel("mean confidence")
    axis.set_ylim(0, 1.03)


def _mark_stages(axis: Axes, comparison: StreamComparison) -> None:
    """Shade every other stage and draw the onset of the fault."""
    for begin, end in _stage_times(comparison)[1::2]:
        axis.axvspan(begin, end, color="#eef2f7", zorder=0)
    faulty = np.flatnonzero(comparison.first.label)
    if len(faulty):
        axis.axvline(comparison.time[faulty[0]], color="#d1495b", linestyle="--", linewidth=1)
    axis.grid(visible=True, color="#e6e6e6", linewidth=0.5)
    axis.set_axisbelow(True)


def _name_stages(axis: Axes, comparison: StreamComparison) -> None:
    for name, (begin, end) in zip(comparison.stages, _stage_times(comparison), strict=True):
        axis.text((begin + end) / 2, 1.03, name, transform=axis.get_xaxis_transform(), ha="center", fontsize=9)


def _stage_times(comparison: StreamComparison) -> list[tuple[float, float]]:
    inside = [comparison.time[comparison.first.stage == number] for number in range(len(comparison.stages))]
    return [(float(times[0]), float(times[-1])) for times in inside]
