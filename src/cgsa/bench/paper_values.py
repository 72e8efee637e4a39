"""The paper's published values, for comparison with ours."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from cgsa.bench.plan import Plan
from cgsa.bench.records import WHOLE_STREAM, Row

Spread = tuple[float, float | None]
"""A mean and its standard deviation over the trials, or None if the paper does not give it."""
ValueKey = tuple[str, str, str, str]
"""Fault, stage, metric, entry; fault and stage ``all`` mean the total average."""


@dataclass(frozen=True)
class PaperValue:
    """A value of tables III, IV or VI."""

    scenario: str
    key: ValueKey
    objective: str
    """Training objective of the model that the entry starts from."""
    spread: Spread


def comparable_paper_values(rows: Sequence[Row], scenario: str) -> dict[ValueKey, Spread]:
    """Return the paper's values for those rows that follow the paper's procedure.

    That is: from a model of the same training, on a specimen included in training, and, for totals, over all faults.
    """
    mine = [row for row in rows if row["scenario"] == scenario and row["watched"] == Plan.watched]
    entries = {(row["entry"], row["objective"]) for row in mine}
    faults = {row["fault"] for row in mine} | {WHOLE_STREAM}
    theirs = [value for value in paper_values() if value.scenario == scenario]
    all_faults = {value.key[0] for value in theirs} <= faults
    return {
        value.key: value.spread
        for value in theirs
        if (value.key[-1], value.objective) in entries and (all_faults or value.key[0] != WHOLE_STREAM)
    }


@cache
def paper_values() -> tuple[PaperValue, ...]:
    """Return all values of tables III, IV and VI."""
    return tuple(
        PaperValue(
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
    return list(csv.DictReader(text.splitlines()))
