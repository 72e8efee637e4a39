"""The results of a rotation: matrices and summaries as tables, and a heat map."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from cgsa.bench.records import Row
from cgsa.bench.rotation.figure import draw_rotation
from cgsa.bench.rotation.run import Rotation
from cgsa.bench.rotation.tables import expected_table, matrix_tables, models_table, rotation_matrices, sets_table
from cgsa.bench.tables import Table


def write_rotation(rotation: Rotation, by_set: Mapping[str, Sequence[Row]]) -> list[Table]:
    """Write tables and figures of all rows, and return the summaries."""
    rows = [row for found in by_set.values() for row in found]
    for subfolder in ("tables", "figures"):
        shutil.rmtree(rotation.folder / subfolder, ignore_errors=True)
    summaries: list[Table] = []
    entry = Path(rotation.profile).stem
    for variant in rotation.variants:
        matrices = rotation_matrices(rows, variant)
        if not matrices:
            continue
        overall = models_table(rows, variant)
        by_machine = sets_table(matrices, entry, f"{entry}, frozen", variant)
        expected = expected_table(rows, entry, variant)
        summaries += [overall, by_machine, expected]
        for table in (*matrix_tables(matrices, variant), overall, by_machine, expected):
            table.write(rotation.folder / "tables")
        draw_rotation(matrices, variant).write(rotation.folder / "figures")
    return summaries
