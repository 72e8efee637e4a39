from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import numpy as np

from cgsa.bench.records import WHOLE_STREAM, RunRecord
from cgsa.bench.stream_details import (
    AFTER,
    BEFORE,
    INTERVAL_BORDERS,
    BatchSeries,
    DeviationIntervals,
    StreamDetails,
    Transition,
)

FAULTS = ("gear_wear", "teeth_break", "teeth_crack")
STAGES = ("C1", "C2", "C3")


def make_record(
    entry: str = "CGSA",
    fault: str = "gear_wear",
    trial: int = 0,
    *,
    scenario: str = "gearbox",
    method: str = "cgsa",
    settings: Mapping[str, object] | None = None,
    batch_size: int = 100,
    gated: bool = True,
) -> RunRecord:
    """Return a record of a stream of three stages with 600 windows each; its numbers depend on its name."""
    rng = np.random.default_rng(list(f"{entry} {fault} {trial} {batch_size}".encode()))
    sizes = [min(batch_size, 1800 - begin) for begin in range(0, 1800, batch_size)]
    batches = BatchSeries(
        stage=tuple(begin // 600 for begin in range(0, 1800, batch_size)),
        windows=tuple(sizes),
        right=tuple(int(rng.integers(0, size + 1)) for size in sizes),
        confidence=(0.9,) * len(sizes),
        accepted=(1,) * len(sizes),
    )
    accuracy = rng.random(3).tolist()
    common: dict[str, object] = {
        "plan": "made up",
        "scenario": scenario,
        "fault": fault,
        "entry": entry,
        "objective": "cal" if method == "cgsa" else "supcon",
        "method": method,
        "settings": json.dumps(settings or {}),
        "batch_size": batch_size,
        "watched": 1,
        "trial": trial,
    }
    rows = [
        {**common, "stage": name, "accuracy": value, "ece": 0.1} for name, value in zip(STAGES, accuracy, strict=True)
    ]
    whole = {"stage": WHOLE_STREAM, "accuracy": sum(accuracy) / 3, "ece": 0.05, "seconds": 100 / batch_size}
    details = StreamDetails(batches, (0, 600, 1200), 900)
    if gated:
        details = replace(details, intervals=make_intervals(rng), transitions=make_transitions(rng))
    return RunRecord((*rows, {**common, **whole}), details)


def make_intervals(rng: np.random.Generator) -> DeviationIntervals:
    windows = rng.integers(1, 100, len(INTERVAL_BORDERS))
    windows[2] = 0
    return DeviationIntervals(tuple(windows.tolist()), tuple((windows // 2).tolist()))


def make_transitions(rng: np.random.Generator) -> tuple[Transition, ...]:
    """Return one transition early in the stream, while the queue fills, and one with all its windows."""
    found = []
    for name, begin in (("onset", -30), ("C2 to C3", -BEFORE)):
        count = AFTER - begin
        deviation = tuple(None if place < 20 and begin == -30 else float(rng.random()) for place in range(count))
        yes = rng.integers(0, 2, (2, count)).tolist()
        found.append(Transition(name, begin, tuple(yes[0]), deviation, tuple(yes[1])))
    return tuple(found)


RECORDS = [
    make_record(entry, fault, trial, method=method, gated=method == "cgsa")
    for trial, fault, (entry, method) in product(
        range(2), FAULTS, {"SupCon": "source", "CGSA": "cgsa", "CoTTA": "cotta"}.items()
    )
]
