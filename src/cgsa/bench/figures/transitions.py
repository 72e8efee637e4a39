"""Window selection around a change of the condition or of the machine's health."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cgsa.bench.figures.drawing import Drawing
from cgsa.bench.figures.selection import cgsa_setting, gated_records
from cgsa.bench.figures.style import COLOUR_CYCLE, GREY, HIGHLIGHT_COLOUR, draw_gridlines, readable_name, shorten_name
from cgsa.bench.records import RunRecord, grouped
from cgsa.bench.stream_details import AFTER, BEFORE, Transition
from cgsa.metrics.accuracy import DoubleArray, IntArray

WINDOWS_PER_POINT = 8
"""Windows per point around a transition: few compared with the queue, and no point spans the change."""
TrialSpread = tuple[DoubleArray, DoubleArray]
"""Mean and deviation over the trials per point around a change; NaN if unknown."""


def draw_transitions(records: Sequence[RunRecord], scenario: str) -> Iterator[Drawing]:
    """Draw one column per change; nothing if no method reports its selection."""
    mine = gated_records(records)
    names = list(dict.fromkeys(change.name for record in mine for change in record.details.transitions))
    if not names:
        return
    figure = Figure(figsize=(1.5 + 3.2 * len(names), 5.4), layout="constrained")
    axes = figure.subplots(2, len(names), sharex=True, sharey="row", squeeze=False)
    queue = cgsa_setting(mine[0], "queue")
    begins = np.arange(-BEFORE, AFTER, WINDOWS_PER_POINT, dtype=np.int64)
    body = []
    for name, (upper, lower) in zip(names, axes.T, strict=True):
        accepted = _mean_around(mine, name, lambda change: change.accepted)
        right = _mean_around(mine, name, lambda change: change.right)
        deviation = _mean_around(mine, name, lambda change: change.deviation)
        _band(upper, begins, right, COLOUR_CYCLE[0], "pseudo-labels right", limit=1)
        _band(upper, begins, accepted, HIGHLIGHT_COLOUR, "windows accepted", limit=1)
        _band(lower, begins, deviation, "#333333", "residual deviation")
        for axis in (upper, lower):
            axis.axvline(0, color=GREY, linewidth=1, linestyle="--")
            axis.axvline(queue, color=GREY, linewidth=0.7, linestyle=":")
            draw_gridlines(axis)
        upper.set_title(shorten_name(name))
        lower.set_xlabel("windows from the change")
        columns = (*accepted, *right, *deviation)
        body += [
            (
                name,
                str(begin),
                str(begin + WINDOWS_PER_POINT - 1),
                *("" if np.isnan(value) else f"{value:.4f}" for value in values),
            )
            for begin, *values in zip(begins, *columns, strict=True)
            if not np.isnan(values[0])
        ]
    axes[0, 0].set_ylabel("share of windows")
    axes[0, 0].set_ylim(max(axes[0, 0].get_ylim()[0], -0.03), 1.03)
    axes[1, 0].set_ylabel("mean residual deviation")
    axes[1, 0].set_ylim(bottom=0)
    axes[0, 0].set_xlim(-BEFORE, AFTER)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    names = [f"{name}{sign}" for name in ("accepted", "labels right", "deviation") for sign in ("", " ±")]
    yield Drawing(
        f"transitions-{scenario}",
        f"Around the changes on the {readable_name(scenario)}",
        f"Windows accepted by {mine[0].entry} around each change (dashed), {WINDOWS_PER_POINT} windows per point: mean "
        "over faults and trials, with the deviation over trials as a band. From the dotted line on, the queue of "
        f"{queue:g} responses contains nothing from before the change.",
        figure,
        ("change", "from window", "to window", *names),
        tuple(body),
    )


def _mean_around(
    records: Sequence[RunRecord], name: str, values_of: Callable[[Transition], Sequence[float | None]]
) -> TrialSpread:
    trials = []
    count = (BEFORE + AFTER) // WINDOWS_PER_POINT
    for same in grouped(records, lambda record: record.trial).values():
        found = [change for record in same for change in record.details.transitions if change.name == name]
        offsets = np.array(
            [change.begin + place for change in found for place in range(len(values_of(change)))], dtype=int
        )
        values = np.array([value for change in found for value in values_of(change)], dtype=np.float64)
        known = ~np.isnan(values)
        point = (offsets[known] + BEFORE) // WINDOWS_PER_POINT
        number = np.bincount(point, minlength=count)
        total = np.bincount(point, weights=values[known], minlength=count)
        trials.append(np.divide(total, number, out=np.full(count, np.nan), where=number > 0))
    over_trials = np.ma.masked_invalid(np.array(trials))
    return over_trials.mean(axis=0).filled(np.nan), over_trials.std(axis=0).filled(np.nan)


def _band(axis: Axes, begins: IntArray, spread: TrialSpread, colour: str, label: str, *, limit: float = np.inf) -> None:
    (mean, deviation), middle = spread, begins + (WINDOWS_PER_POINT - 1) / 2
    axis.plot(middle, mean, color=colour, linewidth=1.4, label=label)
    low, high = np.maximum(mean - deviation, 0), np.minimum(mean + deviation, limit)
    axis.fill_between(middle, low, high, color=colour, alpha=0.18, linewidth=0)
