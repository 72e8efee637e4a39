"""Figures of a model's card: accuracy where parts were held out, and what classes are mistaken for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from cgsa.diagnosis.advice import LEAST
from cgsa.nn.assessment import Counts, HeldOutResult
from cgsa.report.figures import COLOURS

ACCURACY_CAPTION = (
    "Accuracy at every part that was held out of training in turn: verdicts joined over time, and single windows. The "
    "dashed line is the least at which a model should be relied on."
)
CONFUSION_CAPTION = "Share of the windows of each class (rows) that were diagnosed as each class (columns)."


def accuracy_figure(results: Sequence[HeldOutResult]) -> Figure:
    """Draw the accuracy of every held-out part, the first one on top."""
    # Names of classes and conditions come from outside: a dollar sign must not start a formula.
    with rc_context({"text.parse_math": False}):
        figure = Figure(figsize=(9, 1.2 + 0.32 * len(results)), layout="constrained")
        axis = figure.subplots()
        places = np.arange(len(results))
        for kind, colour, marker, values in (
            ("single windows", COLOURS[0], "o", [one.accuracy for one in results]),
            ("joined verdicts", COLOURS[1], "D", [one.verdict_accuracy for one in results]),
        ):
            known = [(value, place) for value, place in zip(values, places, strict=True) if value is not None]
            points = np.asarray(known, dtype=np.float64).reshape(-1, 2)
            axis.scatter(points[:, 0], points[:, 1], label=kind, color=colour, marker=marker, s=36, zorder=3)
        axis.axvline(LEAST, color="#888888", linestyle="--", linewidth=1)
        axis.set_yticks(places, [one.name for one in results])
        axis.set_ylim(len(results) - 0.5, -0.5)
        axis.set_xlim(-0.02, 1.02)
        axis.set_xlabel("accuracy")
        axis.grid(visible=True, color="#e6e6e6", linewidth=0.5)
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize=9)
    return figure


def confusion_figure(counts: Counts, classes: Sequence[str]) -> Figure:
    """Draw the confusion of classes as shares of each row."""
    table = np.asarray(counts, dtype=np.float64)
    shares = table / np.maximum(1.0, table.sum(axis=1, keepdims=True))
    with rc_context({"text.parse_math": False}):
        size = 2.5 + 0.55 * len(classes)
        figure = Figure(figsize=(size + 1, size), layout="constrained")
        axis = figure.subplots()
        axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        for row, column in np.argwhere(shares > 0):
            colour = "white" if shares[row, column] > 0.5 else "black"
            text = f"{shares[row, column]:.2f}"
            axis.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)
        axis.set_xticks(range(len(classes)), classes, rotation=45, ha="right")
        axis.set_yticks(range(len(classes)), classes)
        axis.set_xlabel("diagnosed")
        axis.set_ylabel("true")
    return figure
