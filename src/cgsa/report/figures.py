"""Figures of a stream. They use matplotlib's objects directly, so no global state is touched."""

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
MOST_POINTS = 6000
"""More points than this on one scatter only make a larger file."""


@dataclass(frozen=True, eq=False)
class StreamStory:
    """A stream that several methods met, and how to name its parts."""

    title: str
    traces: Mapping[str, StreamTrace]
    """What each method said; all over the same windows."""
    stages: tuple[str, ...]
    seconds_per_window: float
    conditions: tuple[str, ...]
    """Name and unit of each condition, for its axis."""

    @property
    def first(self) -> StreamTrace:
        """Any trace: truth, stages and conditions are the same in all."""
        return next(iter(self.traces.values()))

    @property
    def guided(self) -> StreamTrace | None:
        """The first trace of a method that learns by the residual response; none where no method does."""
        learning = (trace for trace in self.traces.values() if trace.accepted is not None)
        return next((trace for trace in learning if evidence_by_condition("response", trace.evidence)), None)

    @property
    def time(self) -> DoubleArray:
        """Second along the stream at which each window begins."""
        return np.arange(len(self.first.label), dtype=np.float64) * np.float64(self.seconds_per_window)


def overview(story: StreamStory) -> Figure:
    """Draw conditions, cumulative and real-time accuracy, residual responses and confidence over one time axis."""
    looked_at = evidence_by_condition("response", story.guided.evidence) if story.guided else [""]
    panels: list[tuple[float, Callable[[Axes, StreamStory], None]]] = [
        *((1.0, partial(_condition, place=place)) for place in range(len(story.conditions))),
        (1.3, _cumulative),
        (1.3, _realtime),
        *((1.6, partial(_response, condition=condition)) for condition in looked_at),
        (1.1, _confidence),
    ]
    figure = Figure(figsize=(10, 1 + 2 * len(panels)), layout="constrained")
    axes = figure.subplots(len(panels), 1, sharex=True, height_ratios=[height for height, _ in panels])
    figure.suptitle(story.title, fontsize=11)
    for (_, panel), axis in zip(panels, axes, strict=True):
        panel(axis, story)
        _mark_stages(axis, story)
    _name_stages(axes[0], story)
    axes[-1].set_xlabel("time along the stream in s")
    return figure


def response_label(condition: str) -> str:
    """Return the name of the axis of a residual response; a single condition has no name."""
    return f"residual response\nto {condition}" if condition else "residual condition\nresponse"


def to_svg(figure: Figure) -> str:
    """Return the figure as an SVG element that can stand in a page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", dpi=110, metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _condition(axis: Axes, story: StreamStory, *, place: int) -> None:
    if story.first.conditions is not None:
        axis.plot(story.time, story.first.conditions[:, place], color="#333333", linewidth=1)
    axis.set_ylabel(story.conditions[place])


def _cumulative(axis: Axes, story: StreamStory) -> None:
    for (name, trace), colour in zip(story.traces.items(), COLOURS, strict=False):
        axis.plot(story.time, cumulative_accuracy(trace.correct), label=name, color=colour, linewidth=1.5)
    axis.set_ylabel("cumulative\naccuracy")
    axis.set_ylim(-0.03, 1.03)
    axis.legend(loc="lower left", fontsize=8)


def _realtime(axis: Axes, story: StreamStory) -> None:
    for (name, trace), colour in zip(story.traces.items(), COLOURS, strict=False):
        begins = story.time[:: trace.batch_size]
        axis.plot(begins, realtime_accuracy(trace.correct, trace.batch_size), label=name, color=colour, linewidth=1.2)
    axis.set_ylabel("real-time accuracy\n(batch by batch)")
    axis.set_ylim(-0.03, 1.03)


def _response(axis: Axes, story: StreamStory, *, condition: str) -> None:
    axis.set_ylabel(response_label(condition))
    trace = story.guided
    if trace is None:
        axis.text(0.5, 0.5, "no method looked at it", ha="center", transform=axis.transAxes)
        return
    response, queue_mean = (
        evidence_by_condition(what, trace.evidence)[condition] for what in ("response", "queue_mean")
    )
    accepted = np.asarray(trace.accepted)
    few = np.arange(0, len(accepted), max(1, len(accepted) // MOST_POINTS))
    for mask, colour, name in ((~accepted, "#bbbbbb", "rejected"), (accepted, COLOURS[2], "accepted, learnt from")):
        chosen = few[mask[few]]
        axis.scatter(story.time[chosen], response[chosen], s=3, color=colour, label=name, rasterized=True)
    axis.plot(story.time, queue_mean, color="#333333", linewidth=0.8, label="mean of the queue")
    axis.legend(loc="lower left", fontsize=8, markerscale=3)


def _confidence(axis: Axes, story: StreamStory) -> None:
    for (name, trace), colour in zip(story.traces.items(), COLOURS, strict=False):
        begins = np.arange(0, len(trace.label), trace.batch_size)
        mean = np.add.reduceat(trace.confidence, begins) / np.diff([*begins, len(trace.label)])
        axis.plot(story.time[begins], mean, label=name, color=colour, linewidth=1.2)
    axis.set_ylabel("mean confidence")
    axis.set_ylim(0, 1.03)


def _mark_stages(axis: Axes, story: StreamStory) -> None:
    """Shade every other stage and draw the onset of the fault."""
    for begin, end in _stage_times(story)[1::2]:
        axis.axvspan(begin, end, color="#eef2f7", zorder=0)
    faulty = np.flatnonzero(story.first.label)
    if len(faulty):
        axis.axvline(story.time[faulty[0]], color="#d1495b", linestyle="--", linewidth=1)
    axis.grid(visible=True, color="#e6e6e6", linewidth=0.5)
    axis.set_axisbelow(True)


def _name_stages(axis: Axes, story: StreamStory) -> None:
    for name, (begin, end) in zip(story.stages, _stage_times(story), strict=True):
        axis.text((begin + end) / 2, 1.03, name, transform=axis.get_xaxis_transform(), ha="center", fontsize=9)


def _stage_times(story: StreamStory) -> list[tuple[float, float]]:
    inside = [story.time[story.first.stage == number] for number in range(len(story.stages))]
    return [(float(times[0]), float(times[-1])) for times in inside]
