from __future__ import annotations

from pathlib import Path

import pytest

from cgsa.bench.records import Row
from cgsa.bench.rotation.figure import draw_rotation
from cgsa.bench.rotation.report import write_rotation
from cgsa.bench.rotation.run import Rotation
from cgsa.bench.rotation.tables import expected_table, matrix_tables, models_table, rotation_matrices, sets_table


def row(machine: str, left_out: str, entry: str, accuracy: float, **more: object) -> Row:
    usual: dict[str, object] = {
        "set": machine,
        "kind": "condition",
        "left_out": left_out,
        "entry": entry,
        "variant": "unseen",
        "accuracy": accuracy,
        "verdict_accuracy": accuracy + 0.1,
        "expected_accuracy": 0.75 if entry == "robust" else None,
        "left_out_accuracy": accuracy - 0.05,
        "detection": 0.8,
        "verdict_detection": 0.9,
        "delay": 2.0,
        "false_alarms": 1,
        "healthy_seconds": 30.0,
        "training_seconds": 4.0,
    }
    return usual | more


ROWS = [
    row("pump", "600 rpm", "robust", 0.8),
    row("pump", "600 rpm", "robust", 0.6, delay=None),
    row("pump", "600 rpm", "robust, frozen", 0.6),
    row("pump", "600 rpm", "extra trees", 0.5),
    row("pump", "600 rpm", "RMS limits", 0.9),
    row("pump", "900 rpm", "robust", 0.5),
    row("pump", "900 rpm", "robust, frozen", 0.55),
    row("pump", "900 rpm", "extra trees", 0.9),
    row("pump", "900 rpm", "RMS limits", 0.9),
    row("fan", "10 Nm", "robust", 0.4),
    row("fan", "10 Nm", "robust", 0.1, variant="trained"),
    row("fan", "unit 1", "robust", 0.3, kind="unit"),
]


def test_a_cell_is_the_mean_over_faults_streams_and_seeds() -> None:
    pump, fan, units = rotation_matrices(ROWS, "unseen")
    assert (pump.name, pump.kind, pump.left_out) == ("pump", "condition", ("600 rpm", "900 rpm"))
    assert pump.cells["600 rpm", "robust"].single == pytest.approx(0.7)
    assert str(pump.mean("robust")) == "0.600 / 0.700"
    assert fan.mean("extra trees") is None
    assert units.kind == "unit"


def test_a_matrix_has_what_was_left_out_down_and_the_models_across() -> None:
    pump, fan = matrix_tables(rotation_matrices(ROWS, "unseen"), "unseen")
    assert pump.header == ("kind", "left out", "robust", "robust, frozen", "extra trees", "RMS limits")
    assert pump.rows[1] == ("condition", "900 rpm", "0.500 / 0.600", "0.550 / 0.650", "0.900 / 1.000", "0.900 / 1.000")
    assert (fan.name, [line[:2] for line in fan.rows]) == (
        "fan-unseen",
        [("condition", "10 Nm"), ("unit", "unit 1")],
    )


def test_means_over_sets_tell_how_many_sets_they_cover() -> None:
    table = models_table(ROWS, "unseen")
    assert table.header[:3] == ("model", "condition", "unit")
    lines = {line[0]: line[1:] for line in table.rows}
    assert lines["robust"] == (
        "0.500 / 0.600",
        "0.300 / 0.400",
        "0.800 / 0.900",
        "2.00",
        "1 of 5",
        "5 in 2.5 min",
        "4.0",
    )
    assert lines["extra trees"][:2] == ("0.700 / 0.800 (1 of 2 sets)", "-")


def test_a_set_is_judged_by_its_worst_condition_its_frozen_model_and_the_best_peer() -> None:
    table = sets_table(rotation_matrices(ROWS, "unseen"), "robust", "robust, frozen", "unseen")
    assert table.rows[0] == (
        "pump",
        "condition",
        "2",
        "0.600 / 0.700",
        "900 rpm",
        "0.500 / 0.600",
        "-0.050 / -0.050",
        # Limits on the RMS cannot name a fault and are no rival.
        "extra trees",
        "0.700 / 0.800",
    )
    assert table.rows[1][-3:] == ("-", "-", "-")


def test_the_map_shows_joined_verdicts_and_leaves_gaps() -> None:
    drawing = draw_rotation(rotation_matrices(ROWS, "unseen"), "unseen")
    assert drawing.rows[0] == ("pump: 600 rpm", "0.8000", "0.7000", "0.6000", "1.0000")
    assert drawing.rows[2] == ("fan: 10 Nm", "0.5000", "", "", "")
    assert len(drawing.png()) > 1000


def test_expected_accuracy_is_compared_with_that_of_what_was_left_out() -> None:
    rows = [
        row("pump", "600 rpm", "robust", 0.8),
        row("pump", "900 rpm", "robust", 0.6),
        row("pump", "600 rpm", "LDA", 1),
    ]
    table = expected_table(rows, "robust", "unseen")
    assert table.rows == (("pump", "condition", "2", "0.750", "0.650", "-0.100"),)


def test_results_are_written_for_every_variant_that_has_rows(tmp_path: Path) -> None:
    rotation = Rotation(tmp_path, "robust")
    summaries = write_rotation(rotation, {"pump": ROWS[:9], "fan": ROWS[9:]})
    assert [table.name for table in summaries] == [
        f"{kind}-{variant}" for variant in ("unseen", "trained") for kind in ("models", "sets", "expected")
    ]
    assert "| pump | condition |" in (tmp_path / "tables" / "sets-unseen.md").read_text()
    assert (tmp_path / "tables" / "fan-trained.md").exists()
    assert (tmp_path / "figures" / "rotation-unseen.png").exists()
    assert not write_rotation(rotation, {"pump": []})
    assert not (tmp_path / "tables").exists()
