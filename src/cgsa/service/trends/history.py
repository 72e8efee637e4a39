"""Trends of a machine over hours to months: means over minutes and, for longer, over hours.

Storage is bounded: the newest two days have a row per minute, and the last 400 days one per hour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cgsa.events import Diagnosis
from cgsa.explain.spectra import DoubleArray
from cgsa.live.store import MAX_PAGE, RowSelection, Snapshot, StoredTrend
from cgsa.service.trends.health import HealthMean
from cgsa.service.trends.levels import PieceLevels, mean_levels

MINUTE, HOUR = 60, 3600
KEPT = {MINUTE: 2 * 24 * 60, HOUR: 400 * 24}
"""Newest rows of each length that are kept."""
LONGEST_MINUTES = 25 * 3600.0
"""Longest period in seconds that is shown minute by minute."""


@dataclass(eq=False)
class MinuteMeans:
    """What happens in one minute of a machine."""

    begin: float
    health: HealthMean = field(default_factory=HealthMean)
    pieces: list[PieceLevels] = field(default_factory=list)

    def row(self, machine: str) -> StoredTrend | None:
        """Return the row of the minute; None if nothing happened."""
        if not self.pieces and not self.health.batches:
            return None
        own = [one for one in self.pieces if _alike(one, self.pieces[-1])]
        levels = mean_levels(own) if own else None
        batches, health = self.health.batches, self.health.mean
        return make_row(machine, self.begin, MINUTE, batches=batches, health=health, pieces=len(own), levels=levels)


def make_row(
    machine: str,
    begin: float,
    seconds: int,
    *,
    batches: int,
    health: float | None,
    pieces: int,
    levels: PieceLevels | None,
) -> StoredTrend:
    """Return the row of a minute or hour."""
    values, spectrum = (b"", b"") if levels is None else _packed(levels)
    rate, channels = (0.0, ()) if levels is None else (levels.sample_rate, levels.channels)
    return StoredTrend(machine, begin, seconds, batches, health, pieces, rate, channels, values, spectrum)


def levels_of(row: StoredTrend) -> PieceLevels | None:
    """Return the levels in a row; None if it has none."""
    if not row.channels:
        return None
    values = np.frombuffer(row.values, "<f4").astype(np.float64).reshape(len(row.channels), -1)
    spectrum = np.frombuffer(row.spectrum, "<f2").astype(np.float64).reshape(len(row.channels), -1)
    return PieceLevels(row.channels, row.sample_rate, values, spectrum)


def hour_row(minutes: Sequence[StoredTrend]) -> StoredTrend:
    """Return the row of the hour of some minutes."""
    known = [(row, found) for row in minutes if (found := levels_of(row)) is not None]
    alike = [(row, found) for row, found in known if _alike(found, known[-1][1])]
    levels = mean_levels([found for _, found in alike], [row.pieces for row, _ in alike]) if alike else None
    batches = sum(row.batches for row in minutes)
    health = math.fsum(row.health * row.batches for row in minutes if row.health is not None)
    first = minutes[0]
    begin = first.time // HOUR * HOUR
    pieces = sum(row.pieces for row, _ in alike)
    mean = health / batches if batches else None
    return make_row(first.machine, begin, HOUR, batches=batches, health=mean, pieces=pieces, levels=levels)


@dataclass(frozen=True, eq=False)
class Trends:
    """Trends of a machine over a period."""

    seconds: int
    """Length of a step: a minute or an hour."""
    times: tuple[float, ...]
    """Begin of every step, in seconds of the stream."""
    health: tuple[float | None, ...]
    """Health score of every step, from 0 to 100; None without a batch that counts."""
    channels: tuple[str, ...]
    sample_rate: float
    values: DoubleArray
    """(steps, channels, quantities): RMS, kurtosis, and the RMS of every band; NaN where nothing was measured."""
    decibels: DoubleArray
    """(steps, channels, lines): mean power of the lines."""


def read_trends(store: Snapshot, machine: str, begin: float, end: float) -> Trends:
    """Read the trends of a period: minute by minute up to a day, and hour by hour beyond."""
    seconds = MINUTE if end - begin <= LONGEST_MINUTES else HOUR
    rows: list[StoredTrend] = []
    cursor: str | None = None
    while True:
        pick = RowSelection(begin=begin, end=end, after=cursor, limit=MAX_PAGE, newest_first=False)
        page = store.trends(machine, seconds, pick)
        rows += page.rows
        cursor = page.cursor
        if not page.more:
            return _joined(rows, seconds)


def _joined(rows: Sequence[StoredTrend], seconds: int) -> Trends:
    levels = [levels_of(row) for row in rows]
    last = next((one for one in reversed(levels) if one is not None), None)
    channels, rate = ((), 0.0) if last is None else (last.channels, last.sample_rate)
    missing = PieceLevels((), 0.0, np.empty((0, 2)), np.empty((0, 0)))
    shape = missing if last is None else last
    same = [one if one is not None and last is not None and _alike(one, last) else None for one in levels]

    def stacked(name: str) -> DoubleArray:
        gap = np.full(getattr(shape, name).shape, np.nan)
        found = [gap if one is None else getattr(one, name) for one in same]
        return np.stack(found) if found else np.empty((0, *gap.shape))

    return Trends(
        seconds,
        tuple(row.time for row in rows),
        tuple(None if row.health is None else 100 * row.health for row in rows),
        channels,
        rate,
        stacked("values"),
        stacked("decibels"),
    )


def is_measured(diagnosis: Diagnosis | None) -> bool:
    """Return whether the signal of a machine says something about it now."""
    operation = None if diagnosis is None else diagnosis.operation
    return diagnosis is not None and (operation is None or operation.state == "running")


def _alike(one: PieceLevels, other: PieceLevels) -> bool:
    """Return whether two pieces have the same channels, rate and bands."""
    same = (one.channels, one.sample_rate) == (other.channels, other.sample_rate)
    return same and one.values.shape == other.values.shape and one.decibels.shape == other.decibels.shape


def _packed(levels: PieceLevels) -> tuple[bytes, bytes]:
    return levels.values.astype("<f4").tobytes(), levels.decibels.astype("<f2").tobytes()
