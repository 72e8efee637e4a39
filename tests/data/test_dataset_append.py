from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cgsa.data import dataset_append
from cgsa.data.dataset import DataSet
from cgsa.data.dataset_append import append_recordings, free_file_name
from cgsa.data.dataset_file import RecordingEntry
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import Recording
from cgsa.errors import DataError
from tests.data.made_machine import RATE, made_signal, write_machine

ENTRY = RecordingEntry("recordings/new.parquet", "cracked", {"speed": 750.0}, unit="press-1", origin="somewhere")
RECORDING = Recording(made_signal("cracked", 750), RATE, ("x", "y"), ("g", "g"), source="somewhere")


def state_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_recording_is_added_with_its_class_and_unit(tmp_path: Path) -> None:
    grown = append_recordings(write_machine(tmp_path / "m"), [(ENTRY, RECORDING)])
    again = DataSet.load(tmp_path / "m")
    assert again.about == grown.about
    assert again.about.classes == ("healthy", "worn", "cracked")
    assert [one.unit for one in again.about.recordings] == ["pump"] * 6 + ["press-1"]
    found = again.read(again.about.recordings[-1])
    np.testing.assert_array_equal(found.signal, RECORDING.signal)
    assert found.label == "cracked"


@pytest.mark.parametrize(
    ("entry", "recording", "message"),
    [
        (replace(ENTRY, conditions={}), RECORDING, "no condition speed"),
        (ENTRY, replace(RECORDING, sample_rate=100.0), "at 100 Hz; the data set has"),
        (ENTRY, replace(RECORDING, units=("g", "V")), r"y \(V\)"),
        (replace(ENTRY, conditions={"speed": (1.0, 2.0)}), RECORDING, "no trace of it"),
        (replace(ENTRY, file="recordings/worn_600rpm_1.parquet"), RECORDING, "exists already"),
        (replace(ENTRY, run="1"), RECORDING, "has no run, others have one"),
    ],
)
def test_what_does_not_fit_changes_nothing(
    tmp_path: Path, entry: RecordingEntry, recording: Recording, message: str
) -> None:
    data_set = write_machine(tmp_path / "m")
    before = state_of(tmp_path)
    with pytest.raises(DataError, match=message):
        append_recordings(data_set, [(entry, recording)])
    assert state_of(tmp_path) == before


def test_a_failure_in_the_middle_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data_set = write_machine(tmp_path / "m")
    before = state_of(tmp_path)

    def fail_second(recording: Recording, path: Path) -> None:
        if path.name == "second.parquet":
            raise DataError("disk full")
        write_parquet(recording, path)

    monkeypatch.setattr(dataset_append, "write_parquet", fail_second)
    second = replace(ENTRY, file="recordings/second.parquet")
    with pytest.raises(DataError, match="disk full"):
        append_recordings(data_set, [(ENTRY, RECORDING), (second, RECORDING)])
    assert state_of(tmp_path) == before


def test_names_of_files_are_free(tmp_path: Path) -> None:
    data_set = write_machine(tmp_path / "m")
    assert free_file_name(data_set, "Worn_600rpm_1") == "recordings/Worn_600rpm_1_2.parquet"
    assert free_file_name(data_set, "a/b") == "recordings/a_b.parquet"
    assert free_file_name(data_set, "c", ["recordings/C.parquet"]) == "recordings/c_2.parquet"
