from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cgsa.data.dataset import DataSet
from cgsa.data.importing.choose import ImportChoices, choose_plan
from cgsa.data.importing.plan import FoundRecording, ImportPlan
from cgsa.data.importing.write import write_data_set
from cgsa.data.read_options import ReadOptions
from cgsa.data.recording import Recording
from cgsa.errors import DataError
from tests.data.made_machine import RATE, made_signal, write_csv_files

PATTERN = ImportChoices("{class}_{speed}rpm_{run}")


@pytest.fixture
def plan(tmp_path: Path) -> ImportPlan:
    return choose_plan(write_csv_files(tmp_path / "data", speeds=(600, 900)), ReadOptions(), PATTERN)


def counting(plan: ImportPlan, fail_at: int | None = None) -> tuple[ImportPlan, list[str]]:
    """Return the plan and the names of what was read; optionally it is interrupted before one of the reads."""
    names: list[str] = []

    def read(found: FoundRecording) -> Recording:
        if len(names) == fail_at:
            raise KeyboardInterrupt
        names.append(found.path.name)
        return plan.read(found)

    return replace(plan, read=read), names


def test_recordings_come_back_as_they_were(tmp_path: Path, plan: ImportPlan) -> None:
    data_set = write_data_set(plan, tmp_path / "machine").data_set
    found = {(one.label, one.conditions["speed"][0]): one for one in data_set.recordings()}
    np.testing.assert_allclose(found["worn", 900].signal, made_signal("worn", 900), atol=1e-6)
    assert data_set.about.sample_rate == RATE
    assert found["worn", 900].source == str(tmp_path / "data" / "worn_900rpm_1.csv")
    assert data_set.about.recordings[0].origin == str(tmp_path / "data" / "healthy_600rpm_1.csv")


def test_an_interrupted_import_resumes(tmp_path: Path, plan: ImportPlan) -> None:
    target = tmp_path / "machine"
    interrupted, first = counting(plan, fail_at=3)
    with pytest.raises(KeyboardInterrupt):
        write_data_set(interrupted, target)
    assert not target.exists()
    resumed, second = counting(plan)
    done = write_data_set(resumed, target)
    assert (len(first), len(second)) == (3, 1)
    assert sorted(first + second) == sorted(found.path.name for found in plan.recordings)
    whole = write_data_set(plan, tmp_path / "other").data_set
    assert done.data_set.about.recordings == whole.about.recordings
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_other_settings_read_everything_again(tmp_path: Path, plan: ImportPlan) -> None:
    interrupted, _ = counting(plan, fail_at=3)
    with pytest.raises(KeyboardInterrupt):
        write_data_set(interrupted, tmp_path / "machine")
    changed, names = counting(replace(plan, settings=("other",)))
    write_data_set(changed, tmp_path / "machine")
    assert len(names) == len(plan.recordings)


def test_nothing_is_overwritten_unasked(tmp_path: Path, plan: ImportPlan) -> None:
    target = tmp_path / "machine"
    write_data_set(plan, target)
    with pytest.raises(DataError, match="a data set is there already; pass --replace"):
        write_data_set(plan, target)
    smaller = replace(plan, recordings=plan.recordings[:2])
    write_data_set(smaller, target, replace_existing=True)
    assert len(DataSet.load(target).about.recordings) == len(list((target / "recordings").iterdir())) == 2
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("")
    with pytest.raises(DataError, match="exists and is no data set"):
        write_data_set(plan, tmp_path / "mine", replace_existing=True)


def test_damaged_files_stop_the_import_unless_they_are_skipped(tmp_path: Path, plan: ImportPlan) -> None:
    (tmp_path / "data" / "worn_600rpm_1.csv").write_text("Zeit;acc_x\n")
    with pytest.raises(DataError, match=r"worn_600rpm_1\.csv[^$]*--skip-damaged"):
        write_data_set(plan, tmp_path / "machine")
    assert not (tmp_path / "machine").exists()
    result = write_data_set(plan, tmp_path / "machine", skip_damaged=True)
    assert len(result.recordings) == 3
    assert len(result.damaged) == 1


def with_rate(recording: Recording) -> Recording:
    return replace(recording, sample_rate=99.0)


def with_channels(recording: Recording) -> Recording:
    return replace(recording, channels=("p", "q"))


def with_units(recording: Recording) -> Recording:
    return replace(recording, units=("V", "V"))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (with_rate, "different sample rates: 256 Hz .3 files, such as healthy_600rpm_1.; 99 Hz"),
        (with_channels, "different channels"),
        (with_units, "different units"),
    ],
)
def test_recordings_must_be_alike(
    tmp_path: Path, plan: ImportPlan, change: Callable[[Recording], Recording], problem: str
) -> None:
    def read(found: FoundRecording) -> Recording:
        recording = plan.read(found)
        return change(recording) if found is plan.recordings[-1] else recording

    with pytest.raises(DataError, match=problem):
        write_data_set(replace(plan, read=read), tmp_path / "machine")


def test_what_inspects_the_data_set_may_stop_it(tmp_path: Path, plan: ImportPlan) -> None:
    def inspect(data_set: DataSet) -> None:
        raise DataError(f"{len(list(data_set.recordings()))} bad ones")

    with pytest.raises(DataError, match="4 bad ones"):
        write_data_set(plan, tmp_path / "machine", inspect=inspect)
    assert not (tmp_path / "machine").exists()


def test_files_of_the_same_name_get_a_number(tmp_path: Path) -> None:
    for state in ("healthy", "worn"):
        folder = write_csv_files(tmp_path / "data" / state, states=[state], speeds=[600])
        (folder / f"{state}_600rpm_1.csv").rename(folder / "a.csv")
    plan = choose_plan(tmp_path / "data", ReadOptions(), ImportChoices("{class}/*"))
    found = write_data_set(plan, tmp_path / "machine").data_set
    assert [one.file for one in found.about.recordings] == ["recordings/a.parquet", "recordings/a_2.parquet"]


def test_a_measured_condition_is_stored_with_its_range(tmp_path: Path, plan: ImportPlan) -> None:
    def read(found: FoundRecording) -> Recording:
        recording = plan.read(found)
        ramp = np.linspace(0, 10, recording.samples, dtype=np.float32)
        return replace(recording, conditions={"torque": ramp, "speed": ramp})

    data_set = write_data_set(replace(plan, read=read), tmp_path / "machine").data_set
    entry = data_set.about.recordings[0]
    low, high = entry.ranges["torque"]
    assert 0 < low < 0.3
    assert 9.7 < high < 10
    # The name of the file states the speed, which counts.
    assert entry.levels == {"speed": 600}
    recording = data_set.read(entry)
    assert recording.conditions["torque"][-1] == 10
    assert recording.conditions["speed"][-1] == 600
