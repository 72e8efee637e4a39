"""The profile ``robust`` against the profile ``paper`` on every set, from published rows.

    python benchmarks/against_paper.py

Reads results of the plans paper, real, robust and robust-real, and writes a table beside them, which pages show. Of the
paper it takes CGSA, and of each set the stage-mean accuracy over all faults: mean and worst trial. The last column is
the error of the verdicts of ``robust`` over that of CGSA.
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


def accuracies(plan: str, entry: str, metric: str) -> dict[str, DoubleArray]:
    """Return, by scenario, the accuracy of every trial, faults averaged."""
    found: dict[tuple[str, str], list[float]] = {}
    with (RESULTS / plan / "rows.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["entry"] == entry and row["stage"] == WHOLE_STREAM:
                found.setdefault((row["scenario"], row["trial"]), []).append(float(row[metric]))
    scenarios = dict.fromkeys(scenario for scenario, _ in found)
    return {name: np.array([np.mean(values) for key, values in found.items() if key[0] == name]) for name in scenarios}


def main() -> None:
    rows = []
    for theirs, mine in PLANS.items():
        paper = accuracies(theirs, "CGSA", "accuracy")
        columns = [accuracies(mine, "Frozen", "accuracy")]
        columns += [accuracies(mine, "Robust", metric) for metric in ("accuracy", "verdict_accuracy")]
        for scenario in columns[0]:
            cells = [f"{one[scenario].mean():.3f} ({one[scenario].min():.3f})" for one in (paper, *columns)]
            errors = 1 - columns[-1][scenario].mean(), 1 - paper[scenario].mean()
            rows.append((scenario, *cells, f"{errors[0] / errors[1]:.3f}"))
    head = (
        "set",
        "CGSA, profile paper",
        "robust: frozen windows",
        "robust: windows",
        "robust: verdicts",
        "error ratio",
    )
    folder = RESULTS / "against-paper" / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    table = Table("sets", head, tuple(rows))
    table.write(folder)
    print(table.markdown())


if __name__ == "__main__":
    main()
