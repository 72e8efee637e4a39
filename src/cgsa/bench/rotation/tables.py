"""Tables of a rotation: a matrix per set, and summaries over the sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cgsa.bench.records import Row, grouped, number
from cgsa.bench.rotation.peers import PEERS
from cgsa.bench.tables import Table

MISSING = "-"
DETECTORS = ("RMS limits",)
"""Entries that cannot name a fault: only their detection counts."""


@dataclass(frozen=True)
class Cell:
    """Mean of an entry over the faults, streams and seeds of one thing that was left out."""

    single: float
    """Accuracy of single decisions."""
    joined: float
    """Accuracy of verdicts, joined over time."""

    @classmethod
    def mean_of_rows(cls, rows: Sequence[Row]) -> Cell:
        """Return the cell of some rows."""
        return cls(_mean(rows, "accuracy"), _mean(rows, "verdict_accuracy"))

    @classmethod
    def mean_of_cells(cls, cells: Sequence[Cell]) -> Cell:
        """Return the unweighted mean of some cells."""
        return cls(float(np.mean([one.single for one in cells])), float(np.mean([one.joined for one in cells])))

    def __str__(self) -> str:
        return f"{self.single:.3f} / {self.joined:.3f}"


@dataclass(frozen=True)
class RotationMatrix:
    """Cells of one set and one kind of fold: what was left out down, entries across."""

    name: str
    kind: str
    left_out: tuple[str, ...]
    entries: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]
    """By left-out thing and entry; an unfinished cell is missing."""

    def column(self, entry: str) -> dict[str, Cell]:
        """Return the cells of an entry by what was left out."""
        return {one: self.cells[one, entry] for one in self.left_out if (one, entry) in self.cells}

    def mean(self, entry: str) -> Cell | None:
        """Return the mean of a complete column; None if a cell is missing."""
        column = list(self.column(entry).values())
        return Cell.mean_of_cells(column) if len(column) == len(self.left_out) else None


def rotation_matrices(rows: Iterable[Row], variant: str) -> list[RotationMatrix]:
    """Return one matrix per set and kind of fold."""
    chosen = [row for row in rows if row["variant"] == variant]
    matrices = []
    for (name, kind), mine in grouped(chosen, lambda row: (str(row["set"]), str(row["kind"]))).items():
        cells = grouped(mine, lambda row: (str(row["left_out"]), str(row["entry"])))
        matrices.append(
            RotationMatrix(
                name,
                kind,
                tuple(dict.fromkeys(left_out for left_out, _ in cells)),
                tuple(dict.fromkeys(entry for _, entry in cells)),
                {key: Cell.mean_of_rows(found) for key, found in cells.items()},
            )
        )
    return matrices


def matrix_tables(matrices: Sequence[RotationMatrix], variant: str) -> list[Table]:
    """Return one table per set: single decisions / joined verdicts of every entry."""
    tables = []
    for name, mine in grouped(matrices, lambda matrix: matrix.name).items():
        entries = list(dict.fromkeys(entry for matrix in mine for entry in matrix.entries))
        body = [
            (matrix.kind, left_out, *(_text(matrix.cells.get((left_out, entry))) for entry in entries))
            for matrix in mine
            for left_out in matrix.left_out
        ]
        tables.append(Table(f"{name}-{variant}", ("kind", "left out", *entries), tuple(body)))
    return tables


def models_table(rows: Sequence[Row], variant: str) -> Table:
    """Return the means over sets of every entry by kind of fold, its alarms, and its detection.

    A mean that does not cover all sets says how many it covers.
    """
    matrices = rotation_matrices(rows, variant)
    by_kind = grouped(matrices, lambda matrix: matrix.kind)
    chosen = grouped((row for row in rows if row["variant"] == variant), lambda row: str(row["entry"]))
    body = []
    for entry, mine in chosen.items():
        delays = [number(row, "delay") for row in mine if row["delay"] is not None]
        minutes = sum(number(row, "healthy_seconds") for row in mine) / 60
        body.append(
            (
                entry,
                *(_mean_over_sets(found, entry) for found in by_kind.values()),
                f"{_mean(mine, 'detection'):.3f} / {_mean(mine, 'verdict_detection'):.3f}",
                f"{np.median(delays):.2f}" if delays else MISSING,
                f"{len(mine) - len(delays)} of {len(mine)}",
                f"{sum(number(row, 'false_alarms') for row in mine):g} in {minutes:.1f} min",
                f"{_mean(mine, 'training_seconds'):.1f}",
            )
        )
    header = ("model", *by_kind, "healthy or faulty", "delay, s", "missed", "false alarms", "training, s")
    return Table(f"models-{variant}", header, tuple(body))


def sets_table(matrices: Sequence[RotationMatrix], entry: str, frozen: str, variant: str) -> Table:
    """Return for every set and kind of fold how an entry compares with its frozen model and with the best peer."""
    body = []
    for matrix in matrices:
        own, means = matrix.column(entry), matrix.mean(entry)
        if means is None:
            continue
        worst = min(own, key=lambda left_out: own[left_out].joined)
        without = matrix.column(frozen)
        losses = [
            (own[one].single - without[one].single, own[one].joined - without[one].joined)
            for one in own
            if one in without
        ]
        peers = {name: found for name in PEERS if name not in DETECTORS and (found := matrix.mean(name)) is not None}
        best = max(peers, key=lambda name: peers[name].joined, default=None)
        body.append(
            (
                matrix.name,
                matrix.kind,
                str(len(matrix.left_out)),
                str(means),
                worst,
                str(own[worst]),
                " / ".join(f"{min(values):+.3f}" for values in zip(*losses, strict=True)) or MISSING,
                MISSING if best is None else best,
                MISSING if best is None else str(peers[best]),
            )
        )
    header = (
        "set",
        "kind",
        "folds",
        entry,
        "worst left out",
        "worst",
        "least gain over frozen",
        "best peer",
        "its mean",
    )
    return Table(f"sets-{variant}", header, tuple(body))


def expected_table(rows: Sequence[Row], entry: str, variant: str) -> Table:
    """Return the accuracy that models expect where they are used, and the accuracy that they reach there."""
    known = [
        row
        for row in rows
        if row["entry"] == entry and row["variant"] == variant and row["expected_accuracy"] is not None
    ]
    body = []
    for (name, kind), mine in grouped(known, lambda row: (str(row["set"]), str(row["kind"]))).items():
        expected, reached = _mean(mine, "expected_accuracy"), _mean(mine, "left_out_accuracy")
        folds = len({row["left_out"] for row in mine})
        body.append((name, kind, str(folds), f"{expected:.3f}", f"{reached:.3f}", f"{reached - expected:+.3f}"))
    return Table(f"expected-{variant}", ("set", "kind", "folds", "expected", "reached", "difference"), tuple(body))


def _mean_over_sets(matrices: Sequence[RotationMatrix], entry: str) -> str:
    means = [found for matrix in matrices if (found := matrix.mean(entry)) is not None]
    if not means:
        return MISSING
    mean = Cell.mean_of_cells(means)
    return str(mean) if len(means) == len(matrices) else f"{mean} ({len(means)} of {len(matrices)} sets)"


def _mean(rows: Sequence[Row], column: str) -> float:
    return float(np.mean([number(row, column) for row in rows]))


def _text(cell: Cell | None) -> str:
    return MISSING if cell is None else str(cell)
