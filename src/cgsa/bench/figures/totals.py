"""The total average of every entry, next to the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cgsa.bench.figures.drawing import Drawing
from cgsa.bench.figures.line_styles import line_styles
from cgsa.bench.figures.style import GREY, LIGHT_GREY, draw_gridlines, readable_name, shorten_name
from cgsa.bench.paper_values import Spread, comparable_paper_values
from cgsa.bench.records import WHOLE_STREAM, RunRecord
from cgsa.bench.totals import trial_totals


def draw_totals(records: Sequence[RunRecord], scenario: str) -> Iterator[Drawing]:
    """Draw mean, deviation and every trial."""
    rows = [row for record in records for row in record.rows]
    totals = trial_totals(rows, scenario)
    styles = line_styles(records)
    published = comparable_paper_values(rows, scenario)
    theirs = {entry: published.get((WHOLE_STREAM, WHOLE_STREAM, "accuracy", entry)) for entry in totals}
    compared = any(theirs.values())
    # Per entry, from top to bottom: the mean, the trials and, if any entry has one, the paper's value.
    offsets = (-0.25, 0.0, 0.25) if compared else (-0.2, 0.2)
    figure = Figure(figsize=(7, 1.4 + 0.12 * len(offsets) * len(totals)), layout="constrained")
    axis = figure.subplots()
    body = []
    for place, (entry, trials) in enumerate(totals.items()):
        values = np.array(list(trials.values()))
        mean, deviation = float(values.mean()), float(values.std())
        colour = styles[entry].colour
        axis.axhline(place + 0.5, color=LIGHT_GREY, linewidth=0.5)
        _draw_spread(axis, place + offsets[0], (mean, deviation), colour, colour)
        axis.scatter(values, np.full(len(values), place + offsets[1]), s=9, color=colour, alpha=0.6, linewidths=0)
        if (spread := theirs[entry]) is not None:
            _draw_spread(axis, place + offsets[-1], spread, GREY, "white")
        body.append((entry, f"{mean:.4f}", f"{deviation:.4f}", str(len(values)), *_cells(theirs[entry])))
    axis.plot([], [], "o", color=GREY, label="ours: mean and deviation, one dot per trial")
    if compared:
        axis.plot([], [], "o", color="white", markeredgecolor=GREY, label="the paper's")
    axis.set_yticks(range(len(totals)), [shorten_name(entry) for entry in totals])
    axis.set_ylim(len(totals) - 0.5, -0.5)
    axis.set_xlabel("total average accuracy")
    draw_gridlines(axis, "x")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    yield Drawing(
        f"totals-{scenario}",
        f"Total average on the {readable_name(scenario)}",
        "Accuracy, averaged over stages and faults. Filled: ours with the deviation over the trials; below it, one "
        "small dot per trial. Hollow: the paper's mean and deviation, if the paper includes the method.",
        figure,
        ("method", "total average", "deviation", "trials", "paper", "paper deviation"),
        tuple(body),
    )


def _draw_spread(axis: Axes, place: float, spread: Spread, colour: str, filling: str) -> None:
    mean, deviation = spread
    axis.errorbar(mean, place, xerr=deviation, fmt="o", ms=5, color=colour, mfc=filling, capsize=2, lw=1)


def _cells(published: Spread | None) -> tuple[str, str]:
    mean, deviation = published or (None, None)
    return ("" if mean is None else f"{mean:.3f}"), ("" if deviation is None else f"{deviation:.3f}")
