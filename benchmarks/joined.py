"""Does CGSA with joined verdicts ever lose to its own frozen model, and what does it gain? The tables of `joined.md`.

    cgsa bench joined runs/joined
    cgsa bench joined-real runs/joined-real --data RECORDINGS
    python -m benchmarks.publish add runs/joined joined
    python -m benchmarks.publish add runs/joined-real joined-real

Both plans resume. All entries start from one model per set and trial, and each is compared with that model, frozen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from cgsa.bench.records import WHOLE_STREAM, Row, grouped, number
from cgsa.bench.tables import Table

FROZEN, JOINED = "CAL", "CGSA joined"
VARIANTS = (JOINED, "CGSA joined, no student", "CGSA joined, trusting")
"""Entries that are no rivals of the method."""
COLUMNS = {"accuracy": "windows", "verdict_accuracy": "verdicts"}
LIMIT = 0.95
"""A frozen model above it leaves nothing to gain."""
Trials = Mapping[object, float]


def gains_table(rows: Sequence[Row], scenario: str) -> Table:
    """Return every entry on one set: means over trials, and the least and mean difference from the frozen model."""
    body = []
    for entry, found in _entries(rows, scenario).items():
        cells = [entry]
        for column in COLUMNS:
            mine, frozen = found[column], _entries(rows, scenario)[FROZEN][column]
            cells += [f"{_mean(mine):.3f}", *([""] * 2 if entry == FROZEN else _differences(mine, frozen))]
        body.append(tuple(cells))
    header = ("method", *(f"{name}{more}" for name in COLUMNS.values() for more in ("", ": gain", ": worst trial")))
    return Table(f"gains-{scenario}", header, tuple(body))


def overview_table(rows: Sequence[Row], _: str) -> Table:
    """Return the method against its frozen model and against the best of the others, set by set."""
    body = []
    gains: dict[str, list[float]] = {column: [] for column in COLUMNS}
    for scenario in dict.fromkeys(str(row["scenario"]) for row in rows):
        entries = _entries(rows, scenario)
        cells = [scenario]
        for column in COLUMNS:
            mine, frozen = entries[JOINED][column], entries[FROZEN][column]
            rivals = {name: _mean(found[column]) for name, found in entries.items() if name not in VARIANTS}
            best = max(rivals, key=lambda name: rivals[name])
            if _mean(frozen) < LIMIT:
                gains[column].append(_mean(mine) - _mean(frozen))
            cells += [f"{_mean(frozen):.3f}", f"{_mean(mine):.3f}", _differences(mine, frozen)[1]]
            cells.append(f"{rivals[best]:.3f} ({best})")
        body.append(tuple(cells))
    means = [["", f"{np.mean(found):+.3f}" if found else "", "", ""] for found in gains.values()]
    body.append((f"mean gain where frozen < {LIMIT}", *(cell for cells in means for cell in cells)))
    heads = ("frozen", "joined", "worst trial", "best other")
    header = ("set", *(f"{name}: {head}" for name in COLUMNS.values() for head in heads))
    return Table("overview", header, tuple(body))


def _entries(rows: Iterable[Row], scenario: str) -> dict[str, dict[str, Trials]]:
    """Return, by entry and column, the mean over the faults in every trial."""
    mine = [row for row in rows if row["scenario"] == scenario and row["stage"] == WHOLE_STREAM]
    return {
        entry: {
            column: {
                trial: float(np.mean([number(row, column) for row in streams]))
                for trial, streams in grouped(found, lambda row: row["trial"]).items()
            }
            for column in COLUMNS
        }
        for entry, found in grouped(mine, lambda row: str(row["entry"])).items()
    }


def _mean(trials: Trials) -> float:
    return float(np.mean(list(trials.values())))


def _differences(mine: Trials, frozen: Trials) -> list[str]:
    gains = [mine[trial] - frozen[trial] for trial in mine]
    return [f"{np.mean(gains):+.3f}", f"{min(gains):+.3f}"]
