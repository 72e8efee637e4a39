"""The tables of the README: the figures of a rotation that it leads with, and what people use today beside cgsa."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cgsa.bench.records import Row, grouped, number
from cgsa.bench.rotation.tables import MISSING, RotationMatrix, rotation_matrices
from cgsa.bench.tables import Table

VARIANT = "unseen"
OWN = "recommended"
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Approach:
    """What people use, the entry of the rotation that stands for it, and what it offers."""

    name: str
    entry: str | None
    names_faults: str
    learns_from: str
    says: str


APPROACHES = (
    Approach("**cgsa**, as `cgsa train` makes it", OWN, "yes", "labelled or healthy recordings", "how far to trust it"),
    Approach(
        "logistic regression on averaged spectra", "logistic regression", "yes", "labelled recordings", "a probability"
    ),
    Approach("random forest (extra trees) on spectra", "extra trees", "yes", "labelled recordings", "a probability"),
    Approach("limits on RMS levels", "RMS limits", "no", "healthy recordings", "a level"),
    Approach("envelope analysis by an expert", None, "bearings, gears", "the geometry of the parts", "lines in Hz"),
    Approach("commercial monitoring", None, "some", "mostly limits, closed models", "depends on the product"),
)
KINDS = {"condition": "new condition", "level": "new load level", "unit": "another unit"}
"""Kinds of folds, and what the README calls them."""


def headline_table(rows: Sequence[Row]) -> Table:
    """Return three figures of the recommended profile, each with its limits."""
    matrices = [matrix for matrix in rotation_matrices(rows, VARIANT) if matrix.mean(OWN) is not None]
    body = [
        _verdicts(matrices, "condition", "verdicts right at an operating condition absent from training"),
        _verdicts(matrices, "unit", "verdicts right on another unit of the same machine"),
    ]
    mine = [row for row in rows if row["entry"] == OWN and row["variant"] == VARIANT]
    minutes = sum(number(row, "healthy_seconds") for row in mine) / 60
    delays = [number(row, "delay") for row in mine if row["delay"] is not None]
    alarms = sum(number(row, "false_alarms") for row in mine)
    limits = f"{len(mine) - len(delays)} of {len(mine)} faults are missed; median delay {np.median(delays):.1f} s"
    body.append((f"**{alarms:g}**", f"false alarms in {minutes:.1f} minutes of healthy machines", limits))
    return Table("headline", ("measured", "what", "limits"), tuple(body))


def _verdicts(matrices: Sequence[RotationMatrix], kind: str, what: str) -> tuple[str, str, str]:
    means = {matrix.name: _joined(matrix, OWN) for matrix in matrices if matrix.kind == kind}
    worst = min(means, key=lambda name: means[name])
    value = float(np.mean(list(means.values())))
    return f"**{value:.3f}**", what, f"mean of {len(means)} machines; the worst, `{worst}`, has {means[worst]:.3f}"


def approaches_table(rows: Sequence[Row]) -> Table:
    """Return what each approach offers, and where it was measured, its verdicts that are right and its false alarms.

    Means over sets leave out those where an approach has not been run completely.
    """
    matrices = grouped(rotation_matrices(rows, VARIANT), lambda matrix: matrix.kind)
    body = []
    for approach in APPROACHES:
        mine = [row for row in rows if row["entry"] == approach.entry and row["variant"] == VARIANT]
        named = approach.names_faults == "yes"
        cells = [_mean(matrices[kind], approach.entry) if named else MISSING for kind in KINDS]
        if not mine:
            cells = [NOT_MEASURED, *[MISSING] * (len(KINDS) - 1)]
        detected = f"{np.mean([number(row, 'verdict_detection') for row in mine]):.3f}" if mine else MISSING
        hours = sum(number(row, "healthy_seconds") for row in mine) / 3600
        alarms = f"{sum(number(row, 'false_alarms') for row in mine) / hours:.0f}" if mine else MISSING
        body.append(
            (approach.name, *cells, detected, alarms, approach.names_faults, approach.learns_from, approach.says)
        )
    header = (
        "approach",
        *KINDS.values(),
        "healthy or faulty",
        "false alarms per hour",
        "names faults",
        "learns from",
        "says",
    )
    return Table("approaches", header, tuple(body))


def _mean(matrices: Sequence[RotationMatrix], entry: str | None) -> str:
    means = [_joined(matrix, entry) for matrix in matrices if entry is not None and matrix.mean(entry) is not None]
    return f"{np.mean(means):.3f}" if means else MISSING


def _joined(matrix: RotationMatrix, entry: str) -> float:
    found = matrix.mean(entry)
    return np.nan if found is None else found.joined
