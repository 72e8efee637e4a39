"""Example rows, and helpers to read and compare them."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from cgsa.events import ChannelLevels, Diagnosis, LevelReport, LevelTrend, LimitedLevel, Note, Trust
from cgsa.ledger.columns import LabelColumn
from cgsa.live.alarms import AlarmConfig, AlarmEvent, AlarmManager
from cgsa.live.store import PostgresAddress, RowPage, RowSelection, Snippet, Store, StoredDiagnosis
from cgsa.live.store.mapping import TABLES
from cgsa.live.store.store import read_store

LEVELS = LevelReport(
    channels=(ChannelLevels("x", "g", 0.5, 1.25, None), ChannelLevels("y", "Nm", None, None, None)),
    limits=(LimitedLevel("x", "rms", 0.5, "g", None, 2.0, "normal"),),
    trends=(LevelTrend("x", "rms", "g", 0.1, 2.0, 1e6, "x RMS rises 0.1 g per day"),),
    band=(10.0, 1000.0),
    note="no velocity",
)
OLDEST = RowSelection(newest_first=False, limit=1000)


def stored_diagnosis(batch: int, machine: str = "pump") -> StoredDiagnosis:
    diagnosis = Diagnosis(
        batch=batch,
        source="live",
        begin=float(batch),
        end=batch + 1.5,
        windows=256,
        verdict="crack",
        probabilities={"healthy": 0.25, "crack": 0.75},
        accepted=None if batch % 2 else 17,
        deviation=0.1,
        state="crack",
        alarm=None if batch % 3 else "crack",
        trust=Trust(0.5, None, 1 / 3, "learning") if batch % 2 else None,
        levels=LEVELS if batch % 2 else None,
    )
    return StoredDiagnosis(machine, diagnosis, flagged=3, response=-0.5)


def columns(
    begin: float, windows: int = 8, seed: int = 0, *, learns: bool = True
) -> dict[str, np.ndarray | LabelColumn]:
    random = np.random.default_rng(seed)
    found: dict[str, np.ndarray | LabelColumn] = {
        "window": np.arange(windows) + 2**40,
        "time": begin + np.arange(windows) / 8,
        "source": LabelColumn(np.zeros(windows, np.int32), ("live",)),
        "verdict": LabelColumn(random.integers(0, 2, windows).astype(np.int32), ("healthy", f"crack {seed}")),
        "reason": LabelColumn(random.integers(0, 2, windows).astype(np.int32), ("learnt", "not confident")),
        "confidence": random.random(windows, np.float32),
        "deviation": np.where(random.random(windows) < 0.2, np.nan, random.normal(size=windows)).astype(np.float32),
    }
    if learns:
        found["accepted"] = random.random(windows) < 0.5
    return found


def plain(column: np.ndarray | LabelColumn) -> list[object]:
    """Return a column as comparable values; NaN becomes text."""
    if isinstance(column, LabelColumn):
        return [column.labels[code] for code in column.codes]
    return ["NaN" if isinstance(value, float) and math.isnan(value) else value for value in column.tolist()]


def bits(column: np.ndarray | LabelColumn) -> tuple[object, ...]:
    """Return everything that identifies a column."""
    if isinstance(column, LabelColumn):
        return (column.labels, *bits(column.codes))
    return column.dtype, column.tobytes()


def example_events() -> list[tuple[int, int, AlarmEvent | Note | Snippet]]:
    """Return events of a machine and its users, each with its place in the journal."""
    manager = AlarmManager(AlarmConfig(on_delay=1, off_delay=2, reopen_within=0), "pump")
    acts: list[Callable[[], tuple[AlarmEvent, ...]]] = [
        *(lambda t=t: manager.observe(t, t + 1, "crack") for t in range(3)),
        lambda: manager.comment(3, "eve", "grinds"),
        lambda: manager.acknowledge(3, "eve", "seen"),
        lambda: manager.shelve(3, "eve", seconds=9, reason="known"),
        lambda: manager.label(3, "eve", state="crack", begin=0, end=3),
        *(lambda t=t: manager.observe(t, t + 1, None) for t in range(3, 9)),
        *(lambda t=t: manager.observe(t, t + 1, "wear") for t in range(9, 12)),
        lambda: manager.label(12, "eve", state="wear", begin=9, end=12),
    ]
    events: list[tuple[int, int, AlarmEvent | Note | Snippet]] = [
        (position, index, event) for position, act in enumerate(acts) for index, event in enumerate(act())
    ]
    samples = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6)
    events.append((1, 1, Snippet("pump", 1.0, 1, 12.5, ("x", "y"), samples)))
    events.append((99, 0, Note("pump", 4.0, "gap", "three blocks are missing", {"blocks": 3})))
    return events


def write_example_events(store: Store) -> None:
    for position, index, event in example_events():
        store.add(position, index, event)
    for batch in range(5):
        store.add_diagnosis(stored_diagnosis(batch))
        store.add_ledger("pump", batch, columns(batch, seed=batch))
    store.flush()


def dump(path: Path) -> list[str]:
    """Return the content of a file, except for the counters of openings and flushes."""
    with closing(sqlite3.connect(path)) as connection:
        return [line for line in connection.iterdump() if not line.startswith('INSERT INTO "meta"')]


def all_rows(place: Path | PostgresAddress) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows of the tables of a store."""
    with read_store(place) as view:
        return {
            table: [tuple(row) for row in view._connection.execute(f"SELECT * FROM {table} ORDER BY id")]  # noqa: S608 - a table of the store
            for table in (*TABLES.values(), "ledger")
        }


def every(read: Callable[[RowSelection], RowPage[object]], *, limit: int, newest_first: bool) -> list[object]:
    """Return all rows, page by page."""
    rows: list[object] = []
    pick = RowSelection(limit=limit, newest_first=newest_first)
    while True:
        page = read(pick)
        # A page that announces more rows must be followed by some.
        assert page.rows or pick.after is None
        rows += page.rows
        if not page.more:
            return rows
        pick = replace(pick, after=page.cursor)
