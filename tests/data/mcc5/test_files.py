from __future__ import annotations

from pathlib import Path

import pytest

from cgsa.data.mcc5.files import Mcc5FileName, find_runs
from cgsa.data.run import Run
from cgsa.errors import DataError
from tests.data.mcc5.examples import GEARBOX_NAME, MOTOR_NAME


@pytest.mark.parametrize(
    ("name", "state", "severity", "run"),
    [
        ("health_speed_circulation_20Nm-3000rpm.csv", "health", None, Run("speed", 20, 3000)),
        ("health_torque_circulation_1000rpm_10Nm.csv", "health", None, Run("torque", 10, 1000)),
        ("miss_teeth_torque_circulation_2000rpm_20Nm.csv", "miss_teeth", None, Run("torque", 20, 2000)),
        ("gear_wear_H_torque_circulation_1000rpm_10Nm.csv", "gear_wear", "H", Run("torque", 10, 1000)),
        ("gear_pitting_M_speed_circulation_20Nm-1000rpm.csv", "gear_pitting", "M", Run("speed", 20, 1000)),
        ("teeth_break_single_L_speed_circulation_10Nm_1000rpm.csv", "teeth_break", "L", Run("speed", 10, 1000)),
        (
            "teeth_break_and_bearing_inner_L_torque_circulation_3000rpm-20Nm.csv",
            "teeth_break_and_bearing_inner",
            "L",
            Run("torque", 20, 3000),
        ),
        ("bend_speed_circulation_40Nm_1000rpm.csv", "bend", None, Run("speed", 40, 1000)),
        ("winding_L_torque_circulation_40Nm_2000rpm_230412101530d.csv", "winding", "L", Run("torque", 40, 2000)),
        (MOTOR_NAME, "broken_bar_and_bearing_inner", "H", Run("torque", 20, 2000)),
        (
            "bearing_outer_H_and_inner_H_speed_circulation_20Nm_3000rpm_230412101530.csv",
            "bearing_outer_and_inner",
            "H",
            Run("speed", 20, 3000),
        ),
        ("bearing_outer_H_and_inner_L_speed_circulation_20Nm_3000rpm", "bearing_outer_H_and_inner_L", None, None),
    ],
)
def test_file_names(name: str, state: str, severity: str | None, run: Run | None) -> None:
    parsed = Mcc5FileName.parse(name)

    assert (parsed.state, parsed.severity) == (state, severity)
    assert run is None or parsed.run == run


@pytest.mark.parametrize(
    "name",
    ["notes.csv", "._health_speed_circulation_20Nm-3000rpm.csv", "health_20Nm_1000rpm.csv", "_torque_circulation_1Nm"],
)
def test_other_names_are_refused_with_an_example(name: str) -> None:
    with pytest.raises(DataError, match=r"not an MCC5-THU name; expected something like 'gear_wear_H_torque"):
        Mcc5FileName.parse(name)


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_find_runs_skips_other_files_and_reads_specimens(tmp_path: Path) -> None:
    first = touch(tmp_path / "a" / GEARBOX_NAME)
    second = touch(tmp_path / "specimen_2" / GEARBOX_NAME)
    touch(tmp_path / "__MACOSX" / "a" / GEARBOX_NAME)
    touch(tmp_path / "a" / f"._{GEARBOX_NAME}")
    touch(tmp_path / "a" / "readme.txt")
    touch(tmp_path / "a" / "table.csv")

    index = find_runs(tmp_path)

    assert [(file.path, file.specimen) for file in index.files] == [(first, 1), (second, 2)]
    assert index.files[0].name == Mcc5FileName.parse(GEARBOX_NAME)
    assert len(index.skipped) == 4
    assert index.notes == (f"skipped 4 files that are not runs, such as {Path('__MACOSX', 'a', GEARBOX_NAME)}",)
    assert find_runs(tmp_path / "specimen_2").files[0].specimen == 2


def test_find_runs_keeps_the_first_of_a_run_recorded_twice(tmp_path: Path) -> None:
    name = "bearing_outer_H_speed_circulation_20Nm_3000rpm"
    first = touch(tmp_path / f"{name}_230412101530.csv")
    second = touch(tmp_path / f"{name}_230412114500d.csv")

    index = find_runs(tmp_path)

    assert [file.path for file in index.files] == [first]
    assert index.notes == (f"{second.name} is another recording of {first.name}; left out",)


def test_find_runs_needs_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        find_runs(tmp_path / "nowhere")
