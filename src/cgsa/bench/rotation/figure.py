"""Heat map of a rotation: what was left out of every set down, entries across."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from cgsa.bench.figures.drawing import Drawing
from cgsa.bench.figures.style import figure_style, readable_name, shorten_name
from cgsa.bench.rotation.tables import RotationMatrix

INCHES_PER_ROW, INCHES_PER_COLUMN, INCHES_PER_LETTER = 0.22, 0.75, 0.075


def draw_rotation(matrices: Sequence[RotationMatrix], variant: str) -> Drawing:
    """Draw the accuracy of joined verdicts of all sets in one map."""
    entries = list(dict.fromkeys(entry for matrix in matrices for entry in matrix.entries))
    rows = [(matrix, left_out) for matrix in matrices for left_out in matrix.left_out]
    values = np.array(
        [
            [cell.joined if (cell := matrix.cells.get((left_out, entry))) else np.nan for entry in entries]
            for matrix, left_out in rows
        ]
    )
    names = [f"{readable_name(matrix.name)}: {left_out}" for matrix, left_out in rows]
    with figure_style():
        # Names are not shortened: conditions often differ in the last level only.
        margin = INCHES_PER_LETTER * max(len(name) for name in names)
        size = (1.5 + margin + INCHES_PER_COLUMN * len(entries), 2.0 + INCHES_PER_ROW * len(rows))
        figure = Figure(figsize=size, layout="constrained")
        axis = figure.subplots()
        colours = axis.pcolormesh(values, cmap="viridis", vmin=0, vmax=1, edgecolors="white", linewidth=0.5)
        for (y, x), value in np.ndenumerate(values):
            if not np.isnan(value):
                colour = "white" if value <= 0.5 else "black"
                axis.text(x + 0.5, y + 0.5, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=7)
        labels = [shorten_name(entry) for entry in entries]
        axis.set_xticks(np.arange(len(entries)) + 0.5, labels, rotation=40, ha="right")
        axis.set_yticks(np.arange(len(rows)) + 0.5, names)
        axis.invert_yaxis()
        figure.colorbar(colours, ax=axis, label="accuracy of joined verdicts", shrink=0.5)
        return Drawing(
            f"rotation-{variant}",
            "Accuracy with every condition left out in turn",
            "Accuracy of joined verdicts: mean over stages, faults and seeds. A row is what was left out of training.",
            figure,
            ("left out", *entries),
            tuple(
                (name, *("" if np.isnan(value) else f"{value:.4f}" for value in line))
                for name, line in zip(names, values, strict=True)
            ),
        )
