from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cgsa.data.importing import alike
from cgsa.data.importing.alike import with_common_channels
from cgsa.data.importing.plan import FoundRecording, ImportPlan
from cgsa.data.importing.progress import ImportedRecording, add_progress, read_progress
from cgsa.data.importing.write import write_data_set
from cgsa.data.readers.parquet import read_parquet
from cgsa.data.recording import Recording
from cgsa.errors import DataError


def recording(channels: Sequence[str]) -> Recording:
    """Return a recording whose channels hold the number of letters of their names."""
    signal = np.stack([np.full(20, len(name), np.float32) for name in channels])
    return Recording(signal, 100.0, tuple(channels), ("g",) * len(channels))


def plan_of(folder: Path, channels: Sequence[Sequence[str]]) -> ImportPlan:
    """Return the plan for files with these channels."""
    folder.mkdir()
    by_path = {}
    for place, names in enumerate(channels):
        path = folder / f"{'healthy' if place % 2 else 'worn'}_{place}.mat"
        path.touch()
        by_path[path] = names
    found = tuple(FoundRecording(path, path.stem.partition("_")[0]) for path in by_path)
    return ImportPlan("machine", found, lambda one: recording(by_path[one.path]))


def channels_of(folder: Path) -> set[tuple[str, ...]]:
    return {read_parquet(path).channels for path in (folder / "recordings").iterdir()}


NUMBERED = [
    ["X097_DE_time", "X097_FE_time"],
    ["X105_FE_time", "X105_DE_time", "X105_BA_time"],
    ["X118_DE_time", "X118_FE_time", "X118_BA_time"],
]


def test_names_that_tell_their_file_are_the_same_channel(tmp_path: Path) -> None:
    result = write_data_set(plan_of(tmp_path / "data", NUMBERED), tmp_path / "machine")
    assert channels_of(tmp_path / "machine") == {("DE_time", "FE_time")}
    assert [one.name for one in result.data_set.about.channels] == ["DE_time", "FE_time"]
    notes = {note for one in result.recordings for note in one.notes}
    assert notes == {
        "channels are named without the name or number of the file: DE_time, FE_time",
        "channels that not all recordings have are left out: BA_time (in 2 of 3)",
    }
    stored = read_parquet(tmp_path / "machine" / "recordings" / "healthy_1.parquet")
    assert stored.signal[:, 0].tolist() == [12, 12]
    assert set(stored.notes) == notes


@pytest.mark.parametrize(
    "channels",
    [
        [["a", "b"], ["p", "q"]],
        # The numbers are those of sensors, since many files share them.
        [["acc1_x"], ["acc1_x"], ["acc1_x"], ["acc2_x"], ["acc2_x"]],
    ],
)
def test_other_channels_stay_different(tmp_path: Path, channels: list[list[str]]) -> None:
    with pytest.raises(DataError, match=r"recordings with different channels: .*import each kind on its own"):
        write_data_set(plan_of(tmp_path / "data", channels), tmp_path / "machine")


def test_many_kinds_are_counted(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="; and 4 others; none is in all") as error:
        write_data_set(plan_of(tmp_path / "data", [[letter] for letter in "abcdefghij"]), tmp_path / "machine")
    assert "worn_6" not in str(error.value)


@pytest.mark.parametrize("stop_at", range(1, 4))
@pytest.mark.parametrize("before_noting", [True, False])
def test_an_interruption_while_channels_get_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int, *, before_noting: bool
) -> None:
    """A file may have been written anew, and its progress not noted."""
    plan = plan_of(tmp_path / "data", NUMBERED)
    calls = 0

    def interrupted(folder: Path, done: ImportedRecording) -> None:
        nonlocal calls
        calls += 1
        if calls == stop_at and before_noting:
            raise KeyboardInterrupt
        add_progress(folder, done)
        if calls == stop_at:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(alike, "add_progress", interrupted)
        write_data_set(plan, tmp_path / "machine")
    assert not (tmp_path / "machine").exists()
    result = write_data_set(plan, tmp_path / "machine")
    assert channels_of(tmp_path / "machine") == {("DE_time", "FE_time")}
    for one in result.recordings:
        assert one.channels == ("DE_time", "FE_time")


def test_equal_channels_are_left_as_they_are(tmp_path: Path) -> None:
    one = ImportedRecording("key", "recordings/a.parquet", 100.0, ("x", "y"), ("g", "g"), {}, 20)
    assert with_common_channels([one, one], [tmp_path / "a", tmp_path / "b"], tmp_path) == [one, one]
    assert read_progress(tmp_path) == {}
