"""The profile ``robust`` against the profile ``paper`` on every set, from published rows.

    python benchmarks/against_paper.py

Reads results of the plans paper, real, robust and robust-real, and writes a table beside them, which pages show. Of the
paper it takes CGSA, and of each set the stage-mean accuracy over all faults: mean and worst trial, of single windows
and of verdicts joined over time in the same way (none where the rows are from before there were verdicts).
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from cgsa.bench.records import WHOLE_STREAM
from cgsa.bench.tables import Table
from cgsa.metrics.accuracy import DoubleArray

RESULTS = Path(__file__).parent / "results"
PLANS = {"paper": "robust", "real": "robust-real"}
"""Which plan of ours met the streams of which plan of the paper."""
METRICS = ("accuracy", "verdict_accuracy")


def accuracies(plan: str, entry: str, metric: str) -> dict[str, DoubleArray]:
    """Return, by scenario, the accuracy of every trial, faults averaged."""
    found: dict[tuple[str, str], list[float]] = {}
    with (RESULTS / plan / "rows.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["entry"] == entry and row["stage"] == WHOLE_STREAM and row[metric]:
                found.setdefault((row["scenario"], row["trial"]), []).append(float(row[metric]))
    scenarios = dict.fromkeys(scenario for scenario, _ in found)
    return {name: np.array([np.mean(values) for key, values in found.items() if key[0] == name]) for name in scenarios}


def main() -> None:
    rows = []
    for theirs, mine in PLANS.items():
        columns = [accuracies(theirs, "CGSA", metric) for metric in METRICS]
        columns += [accuracies(mine, "Frozen", "accuracy"), *(accuracies(mine, "Robust", metric) for metric in METRICS)]
        rows += [
            (
                scenario,
                *(
                    f"{one[scenario].mean():.3f} ({one[scenario].min():.3f})" if scenario in one else ""
                    for one in columns
                ),
            )
            for scenario in columns[-1]
        ]
    head = (
        "set",
        "paper: windows",
        "paper: verdicts",
        "robust, frozen: windows",
        "robust: windows",
        "robust: verdicts",
    )
    folder = RESULTS / "against-paper" / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    table = Table("sets", head, tuple(rows))
    table.write(folder)
    print(table.markdown())


if __name__ == "__main__":
    main()
