"""Figures of a machine over a period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC
from typing import TypeVar

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cgsa.live.store import Snippet
from cgsa.metrics.accuracy import DoubleArray
from cgsa.report.decimation import min_max_indices
from cgsa.report.figures import COLOURS
from cgsa.report.period_timeline import PeriodTimeline

T = TypeVar("T", float, DoubleArray)

MAX_SAMPLES = 4000
"""Points of a waveform."""
SPECTRUM_LINES = 2000
PANELS = {
    0: ("probability\nof health", {"health": ("healthy", "trusted")}),
    2: ("residual\nresponse", {"response": ("response", "responded")}),
    3: ("share of\nwindows", {"used for adaptation": ("accepted", "windows"), "rejected": ("flagged", "windows")}),
    4: ("trust", {"estimated accuracy": ("chance", "estimated"), "covered by training": ("covered", "estimated")}),
}
"""Rows of the figure with curves: label of the axis, and the sums whose ratio each curve shows."""
PERIOD_CAPTION = (
    "From top to bottom: the probability of health; the state of the machine, joined over time; the mean residual "
    "response, if the method has one; the shares of windows used for adaptation and of windows rejected by the quality "
    "gate; the estimated trust. Open alarm cases are shaded."
)
SNIPPET_CAPTION = "The samples of every channel (minima and maxima are kept), and their spectrum."


def period_figure(timeline: PeriodTimeline, cases: Sequence[tuple[float, float]]) -> Figure:
    """Draw probability of health, states, response, adaptation and trust over one time axis."""
    with _style():
        figure = Figure(figsize=(10, 8.5), layout="constrained")
        axes = figure.subplots(5, 1, sharex=True, height_ratios=(2, 0.7, 1.5, 1.5, 1.5))
        axes[-1].xaxis_date(UTC)
        for row, (label, curves) in PANELS.items():
            _draw_curves(axes[row], timeline, label, curves)
        _draw_states(axes[1], timeline)
        for axis in axes:
            for opened, closed in cases:
                begin, end = max(opened, timeline.begin), min(closed, timeline.end)
                axis.axvspan(_days(begin), _days(end), color="#e08e9a", alpha=0.25)
            axis.set_xlim(_days(timeline.begin), _days(timeline.end))
        axes[-1].set_xlabel("UTC")
    return figure


def snippet_figure(snippet: Snippet) -> Figure:
    """Draw the samples of every channel and their spectra."""
    with _style():
        count = len(snippet.channels)
        figure = Figure(figsize=(10, 1.2 + 1.1 * count), layout="constrained")
        axes = figure.subplots(count, 2, squeeze=False, sharex="col")
        for (left, right), name, samples in zip(axes, snippet.channels, snippet.samples, strict=True):
            signal = np.nan_to_num(samples - np.nanmean(samples) if np.isfinite(samples).any() else samples)
            kept = min_max_indices(signal, MAX_SAMPLES)
            left.plot(kept / snippet.sample_rate, signal[kept], linewidth=0.4, color=COLOURS[0])
            left.set_ylabel(name, fontsize=7)
            lines = np.abs(np.fft.rfft(signal * np.hanning(len(signal))))
            width = -(-len(lines) // SPECTRUM_LINES)
            peaks = np.maximum.reduceat(lines, np.arange(0, len(lines), width))
            frequency = np.arange(len(peaks)) * width * snippet.sample_rate / len(signal)
            right.semilogy(frequency, np.maximum(peaks, 1e-9), linewidth=0.5, color=COLOURS[1])
        axes[-1, 0].set_xlabel("s")
        axes[-1, 1].set_xlabel("Hz")
    return figure


def _style() -> AbstractContextManager[None]:
    # Names of classes and channels come from outside: a dollar sign must not start a formula.
    return rc_context({"text.parse_math": False, "date.converter": "concise"})


def _draw_curves(axis: Axes, timeline: PeriodTimeline, label: str, curves: Mapping[str, tuple[str, str]]) -> None:
    for colour, (name, ratio) in zip(COLOURS, curves.items(), strict=False):
        times, values = timeline.curve(*ratio)
        axis.plot(_days(times), values, linewidth=1, color=colour, label=name)
    if len(curves) > 1:
        axis.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)
        axis.set_ylim(-0.03, 1.03)
    axis.set_ylabel(label)


def _draw_states(axis: Axes, timeline: PeriodTimeline) -> None:
    names = sorted({state for _, _, state in timeline.spans}, key=lambda name: -timeline.seconds[name])
    for row, name in enumerate(names):
        spans = [(_days(begin), _days(end - begin)) for begin, end, state in timeline.spans if state == name]
        axis.broken_barh(spans, (row, 0.8), color=COLOURS[row % len(COLOURS)])
    axis.set_yticks([row + 0.4 for row in range(len(names))], labels=names, fontsize=7)


def _days(seconds: T) -> T:
    """Return a time as matplotlib counts it: days since 1970."""
    return seconds / 86_400.0
