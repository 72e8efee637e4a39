"""What is accepted around a change of the condition or of the machine's health."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cgsa.bench.details import AFTER, BEFORE, Transition
from cgsa.bench.figures.drawing import Drawing
from cgsa.bench.figures.names import cut, words
from cgsa.bench.figures.selection import cgsa_setting, guided
from cgsa.bench.figures.style import CYCLE, QUIET, STRONG, draw_gridlines
from cgsa.bench.records import RunRecord
from cgsa.bench.tables import Table
from cgsa.metrics.accuracy import DoubleArray, IntArray

GRAIN = 8
"""Windows a point around a transition: fine beside the queue, and no point holds windows of both sides."""


@dataclass(frozen=True, eq=False)
class _Spread:
    """Mean and deviation over the trials, a point every :data:`GRAIN` windows around a change; NaN where unknown."""

    mean: DoubleArray
    deviation: DoubleArray


def draw_transitions(records: Sequence[RunRecord], scenario: str) -> Iterator[Drawing]:
    """Draw a column a change; nothing where no method told of any."""
    mine = guided(records)
    names = list(dict.fromkeys(change.name for record in mine for change in record.details.transitions))
    if not names:
        return
    figure = Figure(figsize=(1.5 + 3.2 * len(names), 5.4), layout="constrained")
    axes = figure.subplots(2, len(names), sharex=True, sharey="row", squeeze=False)
    queue = cgsa_setting(mine[0], "queue")
    begins = np.arange(-BEFORE, AFTER, GRAIN, dtype=np.int64)
    body = []
    for name, (upper, lower) in zip(names, axes.T, strict=True):
        accepted = _around(mine, name, lambda change: change.accepted)
        right = _around(mine, name, lambda change: change.right)
        deviation = _around(mine, name, lambda change: change.deviation)
        _band(upper, begins, right, CYCLE[0], "pseudo-labels right", most=1)
        _band(upper, begins, accepted, STRONG, "windows accepted", most=1)
        _band(lower, begins, deviation, "#333333", "residual deviation")
        for axis in (upper, lower):
            axis.axvline(0, color=QUIET, linewidth=1, linestyle="--")
            axis.axvline(queue, color=QUIET, linewidth=0.7, linestyle=":")
            draw_gridlines(axis)
        upper.set_title(cut(name))
        lower.set_xlabel("windows from the change")
        columns = [column for each in (accepted, right, deviation) for column in (each.mean, each.deviation)]
        body += [
            (name, str(begin), str(begin + GRAIN - 1), *("" if np.isnan(value) else f"{value:.4f}" for value in values))
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
    header = (
        "change",
        "from window",
        "to window",
        *(f"{name}{sign}" for name in ("accepted", "labels right", "deviation") for sign in ("", " ±")),
    )
    yield Drawing(
        f"transitions-{scenario}",
        f"Around the changes on the {words(scenario)}",
        f"What {mine[0].entry} accepts around each change (dashed), {GRAIN} windows a point: mean over faults and "
        f"trials, with the deviation over trials as a band. At the dotted line the queue of {queue:g} responses holds "
        "nothing from before the change any more.",
        figure,
        Table(f"transitions-{scenario}", header, tuple(body)),
    )


def _around(records: Sequence[RunRecord], name: str, told: Callable[[Transition], Sequence[float | None]]) -> _Spread:
    trials = []
    count = (BEFORE + AFTER) // GRAIN
    for trial in dict.fromkeys(record.trial for record in records):
        found = [
            change
            for record in records
            if record.trial == trial
            for change in record.details.transitions
            if change.name == name
        ]
        offsets = np.array([change.begin + place for change in found for place in range(len(told(change)))], dtype=int)
        values = np.array([value for change in found for value in told(change)], dtype=np.float64)
        known = ~np.isnan(values)
        point = (offsets[known] + BEFORE) // GRAIN
        number = np.bincount(point, minlength=count)
        total = np.bincount(point, weights=values[known], minlength=count)
        trials.append(np.divide(total, number, out=np.full(count, np.nan), where=number > 0))
    over_trials = np.ma.masked_invalid(np.array(trials))
    return _Spread(over_trials.mean(axis=0).filled(np.nan), over_trials.std(axis=0).filled(np.nan))


def _band(axis: Axes, begins: IntArray, spread: _Spread, colour: str, label: str, *, most: float = np.inf) -> None:
    middle = begins + (GRAIN - 1) / 2
    axis.plot(middle, spread.mean, color=colour, linewidth=1.4, label=label)
    low, high = np.maximum(spread.mean - spread.deviation, 0), np.minimum(spread.mean + spread.deviation, most)
    axis.fill_between(middle, low, high, color=colour, alpha=0.18, linewidth=0)
