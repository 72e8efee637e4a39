"""The paper's own figures, where they may stand beside ours."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from cgsa.bench.plan import Plan
from cgsa.bench.records import WHOLE_STREAM, Row

Spread = tuple[float, float | None]
"""A mean, and its deviation over the trials where the paper tells it."""
Place = tuple[str, str, str, str]
"""Fault, stage, metric, entry; fault and stage ``all`` are the total average."""


@dataclass(frozen=True)
class PaperFigure:
    """A figure of tables III, IV or VI."""

    scenario: str
    place: Place
    objective: str
    """How the model was trained that the entry starts from."""
    spread: Spread


def published_beside(rows: Sequence[Row], scenario: str) -> dict[Place, Spread]:
    """Return the paper's figures for what was done in the rows as it was done in the paper.

    That is: from a model of the same training, on an assembly that was trained
    on, and, for totals, over no fewer faults.
    """
    mine = [row for row in rows if row["scenario"] == scenario and row["watched"] == Plan.watched]
    entries = {(row["entry"], row["objective"]) for row in mine}
    faults = {row["fault"] for row in mine} | {WHOLE_STREAM}
    theirs = [figure for figure in paper_figures() if figure.scenario == scenario]
    all_faults = {figure.place[0] for figure in theirs} <= faults
    return {
        figure.place: figure.spread
        for figure in theirs
        if (figure.place[-1], figure.objective) in entries and (all_faults or figure.place[0] != WHOLE_STREAM)
    }


@cache
def paper_figures() -> tuple[PaperFigure, ...]:
    """Return all that tables III, IV and VI tell."""
    return tuple(
        PaperFigure(
            row["scenario"],
            (row["fault"], row["stage"], row["metric"], row["entry"]),
            row["objective"],
            (float(row["value"]), float(row["deviation"]) if row["deviation"] else None),
        )
        for row in _read("paper_values.csv")
    )


@cache
def paper_efficiency() -> dict[str, dict[str, str]]:
    """Return table V by entry; it was measured on the gearbox."""
    return {row["entry"]: row for row in _read("paper_efficiency.csv")}


def _read(name: str) -> list[dict[str, str]]:
    text = (resources.files("cgsa") / "bench" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text)))
