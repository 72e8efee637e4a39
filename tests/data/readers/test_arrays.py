"""Files of several arrays: which are the signals, and what the others state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from cgsa.data.readers import open_signal, read_recording
from cgsa.errors import DataError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 2))
TIME = np.arange(500) / 1000


def save(tmp_path: Path, **arrays: Any) -> Path:
    np.savez(tmp_path / "a.npz", **arrays)
    return tmp_path / "a.npz"


def test_arrays_of_one_length_are_channels(tmp_path: Path) -> None:
    file = open_signal(save(tmp_path, drive_end=X[:, 0], fan_end=X[:, 1], rpm=1797, fs=12_000))

    assert (file.channels, file.sample_rate) == (("drive_end", "fan_end"), 12_000)
    np.testing.assert_array_equal(file.signal(), X.T.astype(np.float32))


@pytest.mark.parametrize("x", [X, X.T, X[None], X.astype(np.float16)])
def test_the_longer_side_is_the_time(tmp_path: Path, x: np.ndarray[Any, np.dtype[Any]]) -> None:
    assert open_signal(save(tmp_path, x=x)).samples == 500


def test_a_time_array_tells_the_rate(tmp_path: Path) -> None:
    assert open_signal(save(tmp_path, x=X, t=TIME)).sample_rate == 1000


@pytest.mark.parametrize(("name", "value"), [("fs", 1000), ("sampling_rate", 1000.0), ("dt", 0.001), ("Fs", [[1000]])])
def test_names_of_rates_and_steps(tmp_path: Path, name: str, value: Any) -> None:
    assert open_signal(save(tmp_path, x=X, **{name: value})).sample_rate == 1000


def test_several_arrays_must_be_chosen_from(tmp_path: Path) -> None:
    path = save(tmp_path, before=X, after=X[:400], spare=3)

    with pytest.raises(
        DataError, match=r"several arrays of signals: before \(float64 \(500, 2\)\), after .* array='before'"
    ):
        open_signal(path)
    assert open_signal(path, array="after").samples == 400
    assert read_recording(path, array="after", sample_rate=1, units="g").source.endswith("a.npz#after")
    with pytest.raises(DataError, match="no array 'none' of signals; the file holds before"):
        open_signal(path, array="none")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.ones((300, 200))}, "it is not clear which side is the time"),
        ({"x": np.ones((4, 5, 300))}, "holds no array of signals; found x"),
        ({"x": np.array(["a"] * 100)}, "found no array of numbers"),
        ({"x": np.ones(100, complex)}, "holds no array of signals"),
        ({"x": np.array([None] * 100)}, "holds no array of signals"),
    ],
)
def test_what_is_no_signal_is_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        open_signal(save(tmp_path, **arrays))


def test_structures_of_matlab(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    run = {"vibration": X[:, 0], "current": X[:, 1], "fs": 1000.0, "units": np.array(["g", "A"], object)}
    savemat(path, {"run": run, "comment": "bearing 3"})

    file = open_signal(path)

    assert (file.channels, file.units, file.sample_rate) == (("vibration", "current"), ("g", "A"), 1000)


def test_groups_and_attributes_of_hdf5(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for name, rate in (("one", 1000.0), ("two", 2000.0)):
            for channel in ("ax", "ay"):
                dataset = file.create_dataset(f"{name}/{channel}", data=X[:, 0])
                dataset.attrs["unit"] = "m/s²"
            file[name].attrs["sample_rate"] = rate

    found = open_signal(path, array="two")

    assert (found.channels, found.units, found.sample_rate) == (("ax", "ay"), ("m/s^2", "m/s^2"), 2000)


def test_a_dataset_that_states_more_than_is_stored_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (10**12,), np.float32, chunks=(1000,))

    with pytest.raises(DataError, match=r"dataset 'x' of shape .* states 4000000000000 bytes, but 0 are stored"):
        open_signal(path)


def test_links_to_other_files_are_not_followed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = X
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = h5py.ExternalLink("other.h5", "/x")

    with pytest.raises(DataError, match="holds no array of signals"):
        open_signal(tmp_path / "a.h5")


def test_a_large_array_of_an_npz_is_read_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgsa.data.readers.numpy_files.IN_MEMORY", 1000)

    np.testing.assert_array_equal(open_signal(save(tmp_path, x=X)).signal(), X.T.astype(np.float32))


def save_series(path: Path, series: dict[str, Any], **more: Any) -> Path:
    """Write a structure with the name of the file, whose field Y holds named series."""
    items = np.array([*series.items()], [("Name", object), ("Data", object)])
    savemat(path, {path.stem: {"X": np.array([]), "Y": items, **more}})
    return path


def test_series_are_named_and_the_slow_ones_are_no_channels(tmp_path: Path) -> None:
    slow = np.arange(50.0)
    path = save_series(tmp_path / "N09_1.mat", {"force": slow, "a": X[:, 0], "b": X[:, 1]}, fs=1000.0)
    file = open_signal(path)
    assert (file.channels, file.sample_rate, list(file.slow_series)) == (("a", "b"), 1000, ["force", "fs"])
    recording = read_recording(path, units="g", channels=["b"], conditions={"force": "load"})
    np.testing.assert_allclose(recording.conditions["load"], np.linspace(0, 49, 500), rtol=1e-5)
    with pytest.raises(DataError, match="'force' is slower and may be a condition only"):
        read_recording(path, units="g", channels=["force"])
    # Patterns name arrays that are called after their file.
    assert open_signal(path, array="*.Y.b").channels == ("b",)
    assert open_signal(path, array="*.force").samples == 50


def test_series_of_other_lengths_are_no_slow_ones(tmp_path: Path) -> None:
    path = save_series(tmp_path / "a.mat", {"run1": X[:, 0], "run2": X[:400, 1]})
    with pytest.raises(DataError, match="holds several arrays of signals"):
        open_signal(path)
    assert open_signal(path, array="*.run2").samples == 400


def test_one_series_alone_keeps_its_name(tmp_path: Path) -> None:
    path = save_series(tmp_path / "one.mat", {"vibration": X[:, 0]})
    assert open_signal(path).channels == ("vibration",)


def test_series_of_the_same_name_are_numbered(tmp_path: Path) -> None:
    names = np.array([("a", X[:, 0]), ("a", X[:, 1])], [("Name", object), ("Data", object)])
    savemat(tmp_path / "a.mat", {"run": {"Y": names}})
    assert open_signal(tmp_path / "a.mat").channels == ("run.Y.1.a", "run.Y.2.a")


def test_the_cure_for_several_arrays_works_for_other_files(tmp_path: Path) -> None:
    for stem in ("run_7", "run_8"):
        savemat(tmp_path / f"{stem}.mat", {stem: {"before": X[:, 0], "after": X[:400, 1]}})
    with pytest.raises(DataError, match=r"--array '\*\.before'"):
        open_signal(tmp_path / "run_7.mat")
    for stem in ("run_7", "run_8"):
        assert open_signal(tmp_path / f"{stem}.mat", array="*.before").samples == 500


def test_the_rate_of_a_shaft_is_not_that_of_the_samples(tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"bearing": {"sr": 48828, "rate": 25, "gs": X[:, 0], "load": 270}})
    file = open_signal(tmp_path / "a.mat")
    assert (file.sample_rate, list(file.slow_series)) == (48828, ["load", "sr"])


def test_numbers_may_be_text(tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"sr": "97656", "gs": X[:, 0]})
    assert open_signal(tmp_path / "a.mat").sample_rate == 97656


def test_a_number_that_is_read_as_a_condition_is_no_sample_rate(tmp_path: Path) -> None:
    path = save(tmp_path, data=X[:, 0], fs=25.5)
    with pytest.raises(DataError, match="if 'fs' is another quantity, name it as a condition"):
        read_recording(path, sample_rate=51_200, units="g")
    recording = read_recording(path, sample_rate=51_200, units="g", conditions={"fs": "shaft"})
    assert recording.sample_rate == 51_200
    assert set(recording.conditions["shaft"]) == {25.5}
    assert not [note for note in recording.notes if note.startswith("sample rate 25.5")]
    with pytest.raises(DataError, match="states no sample rate"):
        read_recording(path, units="g", conditions={"fs": "shaft"})


def test_channels_named_after_their_file_are_found_by_the_rest(tmp_path: Path) -> None:
    path = save(tmp_path, X097_DE_time=X[:, 0], X097_FE_time=X[:, 1], X097RPM=1797, fs=12_000)
    recording = read_recording(path, channels=["FE_time"], units={"FE_time": "g"}, conditions={"RPM": "speed"})
    assert (recording.channels, recording.units) == (("FE_time",), ("g",))
    assert set(recording.conditions["speed"]) == {1797}
    assert "channels are named without the name or number of the file: FE_time" in recording.notes
