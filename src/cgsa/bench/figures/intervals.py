"""Accuracy of pseudo-labels by residual deviation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

from cgsa.bench.figures.drawing import Drawing
from cgsa.bench.figures.selection import gated_records, numeric_tau
from cgsa.bench.figures.style import COLOUR_CYCLE, GREY, HIGHLIGHT_COLOUR, readable_name
from cgsa.bench.records import RunRecord
from cgsa.bench.stream_details import INTERVAL_BORDERS


def draw_intervals(records: Sequence[RunRecord], scenario: str) -> Iterator[Drawing]:
    """Draw one bar per interval; nothing if no method reports deviations."""
    mine = gated_records(records)
    found = [record.details.intervals for record in mine if record.details.intervals is not None]
    if not found:
        return
    windows = np.sum([each.windows for each in found], axis=0)
    right = np.sum([each.right for each in found], axis=0)
    places = np.arange(len(INTERVAL_BORDERS))
    names = [f"{low:g} to {high:g}" for low, high in pairwise(INTERVAL_BORDERS)]
    names.append(f"{INTERVAL_BORDERS[-1]:g} or more")
    there = windows > 0
    share = windows / max(1, windows.sum())
    accuracy = right[there] / windows[there]

    figure = Figure(figsize=(7.5, 5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    upper.bar(places[there], accuracy, color=COLOUR_CYCLE[0])
    for place, value in zip(places[there], accuracy, strict=True):
        upper.text(place, value + 0.015, f"{value:.3f}", ha="center", fontsize=8)
    for place in places[~there]:
        upper.text(place, 0.03, "no windows", ha="center", va="bottom", rotation=90, color=GREY)
    lower.bar(places[there], share[there], color=GREY)
    for place in places[there]:
        lower.text(place, share[place], f"{windows[place]:,}", ha="center", va="bottom", fontsize=8)
    tau = numeric_tau(mine[0])
    if tau is not None and tau <= INTERVAL_BORDERS[-1]:  # beyond, the last bar has no inner scale
        threshold = float(np.interp(tau, INTERVAL_BORDERS, places)) - 0.5
        upper.text(threshold, 1.12, f" threshold {tau:g}", color=HIGHLIGHT_COLOUR, va="top")
        for axis in (upper, lower):
            axis.axvline(threshold, color=HIGHLIGHT_COLOUR, linestyle="--", linewidth=1)
    upper.set_ylim(0, 1.12)
    upper.set_ylabel("pseudo-label accuracy")
    lower.set_ylim(0, 1.2 * float(share.max()) or 1)
    lower.set_ylabel("share of windows")
    lower.set_xticks(places, names, rotation=40, ha="right", rotation_mode="anchor")
    lower.set_xlim(-0.6, len(places) - 0.4)
    lower.set_xlabel("residual deviation")
    yield Drawing(
        f"intervals-{scenario}",
        f"Pseudo-labels by residual deviation on the {readable_name(scenario)}",
        f"Above: accuracy of the pseudo-labels of {mine[0].entry} within each interval, pooled over faults and trials. "
        "Below: the number of windows per interval; few windows mean a large uncertainty. Windows from before the "
        "queue is full have no deviation and are excluded.",
        figure,
        ("residual deviation", "windows", "share", "pseudo-label accuracy"),
        tuple(
            (name, str(count), f"{part:.4f}", f"{good / count:.4f}" if count else "")
            for name, count, part, good in zip(names, windows, share, right, strict=True)
        ),
    )
