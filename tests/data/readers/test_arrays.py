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
