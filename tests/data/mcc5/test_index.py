from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.data.mcc5.files import Mcc5FileName
from cgsa.data.mcc5.index import find_runs
from cgsa.data.mcc5.recordings import GEARBOX_CHANNELS, MOTOR_CHANNELS
from cgsa.data.readers.parquet import write_parquet
from cgsa.errors import DataError
from tests.data.mcc5.examples import GEARBOX_NAME
from tests.data.mcc5.made_folders import MadeRun
from tests.machines import noise_recording


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


def test_files_of_one_name_are_told_apart_by_their_channels(tmp_path: Path) -> None:
    gearbox, motor = MadeRun("gearbox", "health", "1000rpm_10Nm"), MadeRun("motor", "health", "20Nm_2000rpm")
    first, copy = gearbox.write(tmp_path / "a"), gearbox.write(tmp_path / "b")
    other = motor.write(tmp_path / "c", gearbox.name)
    unclear = replace(gearbox, layout="plain").write(tmp_path / "d")

    index = find_runs(tmp_path)

    assert [(file.path, file.channels) for file in index.files] == [
        (first, GEARBOX_CHANNELS),
        (other, MOTOR_CHANNELS),
        (unclear, ()),
    ]
    assert index.notes == (f"b/{copy.name} is another recording of a/{first.name}; left out",)


def test_simulated_files_state_their_channels(tmp_path: Path) -> None:
    name = "health_torque_circulation_1000rpm_10Nm.parquet"
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    write_parquet(noise_recording(), tmp_path / "a" / name)
    (tmp_path / "b" / name).write_bytes(b"no Parquet")

    assert [file.channels for file in find_runs(tmp_path).files] == [("a", "b"), ()]
