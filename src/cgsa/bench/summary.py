"""From rows to the paper's totals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from cgsa.bench.records import WHOLE_STREAM
from cgsa.metrics.accuracy import total_average


@dataclass(frozen=True)
class EntryTotal:
    """The total of one entry on one scenario."""

    entry: str
    mean: float
    """Total average over the faults, mean over the trials."""
    deviation: float
    """Its deviation over the trials."""
    ece: float


def summarise(rows: Sequence[Mapping[str, object]]) -> dict[str, list[EntryTotal]]:
    """Return, by scenario, the total average of every entry in the order of the rows."""
    result: dict[str, list[EntryTotal]] = {}
    for scenario in dict.fromkeys(str(row["scenario"]) for row in rows):
        lines = result.setdefault(scenario, [])
        for entry, totals in trial_totals(rows, scenario).items():
            found = [row["ece"] for row in _whole_streams(rows, scenario) if row["entry"] == entry]
            values = list(totals.values())
            lines.append(
                EntryTotal(
                    entry, float(np.mean(values)), float(np.std(values)), float(np.mean(cast(list[float], found)))
                )
            )
    return result


def trial_totals(rows: Sequence[Mapping[str, object]], scenario: str) -> dict[str, dict[int, float]]:
    """Return, by entry and trial, the total average over the faults of a scenario."""
    accuracies: dict[str, dict[int, list[float]]] = {}
    for row in _whole_streams(rows, scenario):
        trials = accuracies.setdefault(str(row["entry"]), {})
        trials.setdefault(cast(int, row["trial"]), []).append(cast(float, row["accuracy"]))
    return {
        entry: {trial: total_average(faults) for trial, faults in trials.items()}
        for entry, trials in accuracies.items()
    }


def _whole_streams(rows: Sequence[Mapping[str, object]], scenario: str) -> list[Mapping[str, object]]:
    return [row for row in rows if row["scenario"] == scenario and row["stage"] == WHOLE_STREAM]
