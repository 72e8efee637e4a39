"""Rows of two entries on the gearbox, with values drawn at random."""

from __future__ import annotations

from itertools import product

import numpy as np

from cgsa.bench.records import WHOLE_STREAM

FAULTS = ("gear_wear", "teeth_break", "teeth_crack")
ENTRIES = {"SupCon": 0.80, "CGSA": 0.90}
OBJECTIVES = {"SupCon": "supcon", "CGSA": "cal"}


def make_rows(trials: int = 8) -> list[dict[str, object]]:
    rng = np.random.default_rng(0)
    rows: list[dict[str, object]] = []
    for trial, fault, (entry, level) in product(range(trials), FAULTS, ENTRIES.items()):
        stages = level + 0.02 * rng.standard_normal(3)
        common = {"scenario": "gearbox", "fault": fault, "entry": entry, "trial": trial, "needs": ""}
        common |= {"objective": OBJECTIVES[entry], "watched": 1}
        rows += [
            {**common, "stage": f"C{number}", "accuracy": accuracy, "ece": 0.1}
            for number, accuracy in enumerate(stages, start=1)
        ]
        whole = {"seconds": 2.0, "windows_per_second": 100.0, "peak_megabytes": None}
        whole |= {"forward_volume": 2e6, "backward_volume": 1e6}
        rows.append({**common, "stage": WHOLE_STREAM, "accuracy": stages.mean(), "ece": 0.05, **whole})
    return rows


ROWS = make_rows()
