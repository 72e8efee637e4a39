from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product

import pytest

from cgsa.bench.figures import Drawing, all_drawings
from cgsa.bench.records import RunRecord
from tests.bench.figures.made_records import FAULTS, make_record
from tests.bench.figures.reading import texts


def grid_of(values: Mapping[str, Sequence[object]], method: str = "cgsa") -> list[RunRecord]:
    return [
        make_record(
            f"{method} {combination}",
            fault,
            trial,
            method=method,
            settings=dict(zip(values, combination, strict=True)),
            gated=False,
        )
        for combination in product(*values.values())
        for fault in FAULTS[:2]
        for trial in range(2)
    ]


def grids(records: Sequence[RunRecord]) -> dict[str, Drawing]:
    return {drawing.name: drawing for drawing in all_drawings(records) if drawing.name.startswith("grid")}


def test_a_grid_shows_means_over_faults_and_trials() -> None:
    records = grid_of({"tau": [0.1, 0.02], "queue": [50, 10, 200]})
    (name, drawing), *others = grids(records).items()
    assert (name, others) == ("grid-gearbox-tau-queue", [])
    assert drawing.table.header == ("tau, queue", "10", "50", "200")
    mine = [
        float(str(r.whole_stream["accuracy"]))
        for r in records
        if json.loads(str(r.whole_stream["settings"])) == {"tau": 0.02, "queue": 50}
    ]
    assert len(mine) == 4
    assert drawing.table.rows[0][0] == "0.02"
    assert drawing.table.rows[0][2] == f"{sum(mine) / 4:.4f}"
    assert f"{sum(mine) / 4:.4f}" in texts(drawing)


def test_a_missing_cell_stays_empty() -> None:
    records = grid_of({"tau": [0.1, 0.02], "queue": [50, 10]})[4:]
    (drawing,) = grids(records).values()
    assert drawing.table.rows[1][2] == ""
    assert len(texts(drawing)) == 3


@pytest.mark.parametrize(
    "values",
    [
        {"tau": [0.1, 0.2]},
        {"tau": [0.1, 0.2], "queue": [1, 2], "lr": [1e-3, 1e-4]},
        {"by_residual": [True, False], "by_confidence": [True, False]},
    ],
)
def test_other_than_two_numbers_make_no_grid(values: dict[str, Sequence[object]]) -> None:
    assert not grids(grid_of(values))


def test_grids_of_two_methods_have_two_names() -> None:
    values: dict[str, Sequence[object]] = {"lr": [1e-3, 1e-4], "steps": [1, 2], "fixed": ["x"]}
    found = grids(grid_of(values, "tent_full") + grid_of(values, "cotta"))
    assert list(found) == ["grid-gearbox-lr-steps", "grid-gearbox-lr-steps-2"]
    assert [drawing.title.partition(":")[0] for drawing in found.values()] == ["tent_full", "cotta"]
