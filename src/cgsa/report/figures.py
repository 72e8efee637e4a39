"""Figures of a stream. They use matplotlib's objects directly, so no global state is touched."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cgsa.metrics.accuracy import DoubleArray, cumulative_accuracy, realtime_accuracy
from cgsa.metrics.stream import StreamTrace

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
    condition: str
    """Name and unit of the condition, for its axis."""

    @property
    def first(self) -> StreamTrace:
        """Any trace: truth, stages and condition are the same in all."""
        return next(iter(self.traces.values()))

    @property
    def time(self) -> DoubleArray:
        """Second along the stream at which each window begins."""
        return np.arange(len(self.first.label), dtype=np.float64) * np.float64(self.seconds_per_window)


def overview(story: StreamStory) -> Figure:
    """Draw condition, cumulative and real-time accuracy, residual response and confidence over one time axis."""
    figure = Figure(figsize=(10, 11), layout="constrained")
    axes = figure.subplots(5, 1, sharex=True, height_ratios=(1, 1.3, 1.3, 1.6, 1.1))
    figure.suptitle(story.title, fontsize=11)
    for panel, axis in zip((_condition, _cumulative, _realtime, _response, _confidence), axes, strict=True):
        panel(axis, story)
        _mark_stages(axis, story)
    _name_stages(axes[0], story)
    axes[-1].set_xlabel("time along the stream in s")
    return figure


def to_svg(figure: Figure) -> str:
    """Return the figure as an SVG element that can stand in a page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", dpi=110, metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _condition(axis: Axes, story: StreamStory) -> None:
    if story.first.condition is not None:
        axis.plot(story.time, story.first.condition, color="#333333", linewidth=1)
    axis.set_ylabel(story.condition)


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


def _response(axis: Axes, story: StreamStory) -> None:
    guided = [trace for trace in story.traces.values() if "response" in trace.evidence and trace.accepted is not None]
    axis.set_ylabel("residual condition\nresponse")
    if not guided:
        axis.text(0.5, 0.5, "no method looked at it", ha="center", transform=axis.transAxes)
        return
    trace = guided[0]
    accepted = np.asarray(trace.accepted)
    few = np.arange(0, len(accepted), max(1, len(accepted) // MOST_POINTS))
    for mask, colour, name in ((~accepted, "#bbbbbb", "rejected"), (accepted, COLOURS[2], "accepted, learnt from")):
        chosen = few[mask[few]]
        axis.scatter(
            story.time[chosen], trace.evidence["response"][chosen], s=3, color=colour, label=name, rasterized=True
        )
    axis.plot(story.time, trace.evidence["queue_mean"], color="#333333", linewidth=0.8, label="mean of the queue")
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
