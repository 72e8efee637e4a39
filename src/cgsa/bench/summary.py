"""From rows to the paper's totals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from cgsa.bench.run import WHOLE_STREAM
from cgsa.metrics.accuracy import total_average


@dataclass(frozen=True)
class Line:
    """The total of one entry on one scenario."""

    entry: str
    mean: float
    """Total average over the faults, mean over the trials."""
    deviation: float
    """Its deviation over the trials."""
    ece: float


def summarise(rows: Sequence[Mapping[str, object]]) -> dict[str, list[Line]]:
    """Return, by scenario, the total average of every entry in the order of the rows."""
    whole = [row for row in rows if row["stage"] == WHOLE_STREAM]
    result: dict[str, list[Line]] = {}
    for scenario, entry in dict.fromkeys((str(row["scenario"]), str(row["entry"])) for row in whole):
        mine = [row for row in whole if (row["scenario"], row["entry"]) == (scenario, entry)]
        trials = [
            total_average([cast(float, row["accuracy"]) for row in mine if row["trial"] == trial])
            for trial in dict.fromkeys(row["trial"] for row in mine)
        ]
        ece = float(np.mean([cast(float, row["ece"]) for row in mine]))
        result.setdefault(scenario, []).append(Line(entry, float(np.mean(trials)), float(np.std(trials)), ece))
    return result
