"""The paper's totals from rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cgsa.bench.records import Row, number, whole_streams
from cgsa.metrics.accuracy import total_average


@dataclass(frozen=True)
class EntryTotal:
    """The total of one entry on one scenario."""

    entry: str
    mean: float
    """Total average over the faults, mean over the trials."""
    deviation: float
    """Standard deviation of the total average over the trials."""
    ece: float


def entry_totals(rows: Sequence[Row], scenario: str) -> list[EntryTotal]:
    """Return the total of every entry on a scenario, in the order of the rows."""
    found = []
    for entry, by_trial in trial_totals(rows, scenario).items():
        ece = np.mean([number(row, "ece") for row in whole_streams(rows, scenario) if row["entry"] == entry])
        values = list(by_trial.values())
        found.append(EntryTotal(entry, float(np.mean(values)), float(np.std(values)), float(ece)))
    return found


def trial_totals(rows: Sequence[Row], scenario: str) -> dict[str, dict[int, float]]:
    """Return, by entry and trial, the total average over the faults of a scenario."""
    accuracies: dict[str, dict[int, list[float]]] = {}
    for row in whole_streams(rows, scenario):
        trials = accuracies.setdefault(str(row["entry"]), {})
        trials.setdefault(int(number(row, "trial")), []).append(number(row, "accuracy"))
    return {
        entry: {trial: total_average(faults) for trial, faults in trials.items()}
        for entry, trials in accuracies.items()
    }
