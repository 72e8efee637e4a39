"""How right pseudo-labels are by residual deviation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

from cgsa.bench.details import INTERVALS
from cgsa.bench.figures.drawing import Drawing
from cgsa.bench.figures.names import words
from cgsa.bench.figures.selection import cgsa_setting, guided
from cgsa.bench.figures.style import CYCLE, QUIET, STRONG
from cgsa.bench.records import RunRecord
from cgsa.bench.tables import Table


def draw_intervals(records: Sequence[RunRecord], scenario: str) -> Iterator[Drawing]:
    """Draw a bar an interval; nothing where no method told deviations."""
    mine = guided(records)
    told = [record.details.intervals for record in mine if record.details.intervals is not None]
    if not told:
        return
    windows = np.sum([each.windows for each in told], axis=0)
    right = np.sum([each.right for each in told], axis=0)
    places = np.arange(len(INTERVALS))
    names = [f"{low:g} to {high:g}" for low, high in pairwise(INTERVALS)]
    names.append(f"{INTERVALS[-1]:g} or more")
    there = windows > 0
    share = windows / max(1, windows.sum())
    accuracy = right[there] / windows[there]

    figure = Figure(figsize=(7.5, 5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    upper.bar(places[there], accuracy, color=CYCLE[0])
    for place, value in zip(places[there], accuracy, strict=True):
        upper.text(place, value + 0.015, f"{value:.3f}", ha="center", fontsize=8)
    for place in places[~there]:
        upper.text(place, 0.03, "no windows", ha="center", va="bottom", rotation=90, color=QUIET)
    lower.bar(places[there], share[there], color=QUIET)
    for place in places[there]:
        lower.text(place, share[place], f"{windows[place]:,}", ha="center", va="bottom", fontsize=8)
    tau = cgsa_setting(mine[0], "tau")
    if tau <= INTERVALS[-1]:  # beyond, the last bar has no inner scale
        threshold = float(np.interp(tau, INTERVALS, places)) - 0.5
        upper.text(threshold, 1.12, f" threshold {tau:g}", color=STRONG, va="top")
        for axis in (upper, lower):
            axis.axvline(threshold, color=STRONG, linestyle="--", linewidth=1)
    upper.set_ylim(0, 1.12)
    upper.set_ylabel("pseudo-label accuracy")
    lower.set_ylim(0, 1.2 * float(share.max()) or 1)
    lower.set_ylabel("share of windows")
    lower.set_xticks(places, names, rotation=40, ha="right", rotation_mode="anchor")
    lower.set_xlim(-0.6, len(places) - 0.4)
    lower.set_xlabel("residual deviation")
    yield Drawing(
        f"intervals-{scenario}",
        f"Pseudo-labels by residual deviation on the {words(scenario)}",
        f"Above: accuracy of the pseudo-labels of {mine[0].entry} within each interval, pooled over faults and trials. "
        "Below: how many windows it holds; an interval with few says little. Windows met while the queue still filled "
        "have no deviation and are left out.",
        figure,
        Table(
            f"intervals-{scenario}",
            ("residual deviation", "windows", "share", "pseudo-label accuracy"),
            tuple(
                (name, str(count), f"{part:.4f}", f"{good / count:.4f}" if count else "")
                for name, count, part, good in zip(names, windows, share, right, strict=True)
            ),
        ),
    )
