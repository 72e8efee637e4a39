from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cgsa.data.recording import Recording
from cgsa.data.steady_state import SteadyStateLibrary
from cgsa.errors import DataError

COUNTS = np.array([[-3, 10], [-1, 20], [1, 30], [3, 40]], dtype=np.int16)
SCALE = np.array([0.5, 0.1], dtype=np.float32)
NAME = "healthy__600rpm.npz"


def write_set(folder: Path, **changes: object) -> Path:
    """Write a set of two classes at one speed; ``changes`` replace entries of its meta.json."""
    files = [
        {"file": NAME, "class": "healthy", "condition": {"speed_rpm": 600, "load_lb": 0.5}},
        # The other spelling, as one of the real sets has it.
        {"file": "worn__600rpm.npz", "cls": "worn", "cond": {"speed_rpm": 600}, "nuisance": {"side": "left"}},
    ]
    meta = {"fs": 2000, "channels": ["x", "y"], "units": "g", "files": files, **changes}
    (folder / "meta.json").write_text(json.dumps(meta))
    np.savez(folder / NAME, x=COUNTS, scale=SCALE)
    np.savez(folder / "worn__600rpm.npz", x=COUNTS.astype(np.float32))
    return folder


def read(folder: Path, state: str = "healthy", run: str = "600rpm", specimen: int = 1) -> Recording:
    return SteadyStateLibrary(folder).get(state, run, severity="H", specimen=specimen)


def test_counts_are_scaled_and_their_mean_is_removed(tmp_path: Path) -> None:
    recording = read(write_set(tmp_path))
    assert recording.signal.dtype == np.float32
    assert recording.signal.flags.c_contiguous
    np.testing.assert_allclose(recording.signal, [[-1.5, -0.5, 0.5, 1.5], [-1.5, -0.5, 0.5, 1.5]], atol=1e-6)
    assert recording.notes == ("the mean of every channel was removed",)


def test_floats_need_no_scale(tmp_path: Path) -> None:
    recording = read(write_set(tmp_path), "worn")
    np.testing.assert_array_equal(recording.signal, [[-3, -1, 1, 3], [-15, -5, 5, 15]])


def test_a_recording_has_the_metadata_of_the_set(tmp_path: Path) -> None:
    recording = read(write_set(tmp_path))
    assert (recording.sample_rate, recording.channels, recording.units) == (2000, ("x", "y"), ("g", "g"))
    assert recording.label == "healthy"
    assert {name: trace.tolist() for name, trace in recording.conditions.items()} == {
        "speed_rpm": [600] * 4,
        "load_lb": [0.5] * 4,
    }
    assert read(tmp_path, "worn").conditions.keys() == {"speed_rpm"}


def test_a_file_has_the_same_source_by_every_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = read(write_set(tmp_path)).source
    monkeypatch.chdir(tmp_path)
    assert read(Path()).source == source


def test_there_is_only_one_specimen(tmp_path: Path) -> None:
    assert list(SteadyStateLibrary(write_set(tmp_path)).specimens()) == [1]
    with pytest.raises(DataError, match="no specimen 2; a set of steady-state recordings has only specimen 1"):
        read(tmp_path, specimen=2)


def test_a_stated_rate_overrides_the_assumed_one(tmp_path: Path) -> None:
    assert SteadyStateLibrary(write_set(tmp_path), assumed_rate=50.0).sample_rate == 2000
    library = SteadyStateLibrary(write_set(tmp_path, fs=None), assumed_rate=50.0)
    recording = library.get("worn", "600rpm", severity="H", specimen=1)
    assert recording.sample_rate == 50
    assert recording.notes[0] == library.notes[0] == "meta.json states no sample rate; 50 Hz assumed"
    with pytest.raises(DataError, match=r"meta\.json: states no sample rate \(fs\); pass assumed_rate"):
        SteadyStateLibrary(tmp_path)


def test_no_meta_file(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"no meta\.json; expected one next to files such as healthy__1200rpm_11lb\.npz"
    ):
        SteadyStateLibrary(tmp_path)


def test_a_meta_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "meta.json").mkdir()
    with pytest.raises(DataError, match=r"meta\.json: cannot be read \(Is a directory\)"):
        SteadyStateLibrary(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"fs": 20', "not a JSON file: Expecting"),
        (b"\xff\xfe", "not a JSON file: 'utf-8' codec"),
        (b"[1, 2]", "is a list; expected an object with fs, channels and files"),
    ],
)
def test_a_damaged_meta_file(text: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_bytes(text)
    with pytest.raises(DataError, match=f"meta.json: {message}"):
        SteadyStateLibrary(tmp_path)


def entry(**changes: object) -> list[dict[str, object]]:
    return [{"file": NAME, "class": "healthy", "condition": {"speed_rpm": 600}, **changes}]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fs": "fast"}, "fs 'fast'; expected the sample rate in Hz"),
        ({"fs": 0}, "fs 0.0; expected the sample rate in Hz"),
        ({"fs": True}, "fs True; expected the sample rate in Hz"),
        ({"fs": 10**400}, "fs inf; expected the sample rate in Hz"),
        ({"channels": None}, "channels None; expected a list of different names"),
        ({"channels": []}, r"channels \[\]; expected"),
        ({"channels": ["x", 2]}, r"channels \['x', 2.0\]; expected"),
        ({"channels": ["x", "x"]}, r"channels \['x', 'x'\]; expected"),
        ({"files": {}}, r"files {}; expected a list with one entry per recording"),
        ({"files": []}, r"files \[\]; expected a list"),
        ({"files": ["a.npz"]}, r"file 'a.npz'; expected a name such as healthy__1200rpm_11lb\.npz"),
        ({"files": entry(file="healthy.npz")}, r"file 'healthy.npz'; expected a name such as"),
        ({"files": entry(file="../up__600rpm.npz")}, r"file '../up__600rpm.npz'; expected a name such as"),
        ({"files": entry(**{"class": "worn"})}, r"healthy__600rpm.npz has class 'worn'; expected 'healthy'"),
        ({"files": entry(condition=None)}, r"healthy__600rpm.npz has condition None; expected numbers by name"),
        ({"files": entry(condition={})}, "healthy__600rpm.npz has condition {}; expected numbers by name"),
        ({"files": entry(condition={"speed_rpm": "slow"})}, "healthy__600rpm.npz has condition {'speed_rpm': 'slow'}"),
    ],
)
def test_a_meta_file_with_invalid_values(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"meta.json: {message}"):
        SteadyStateLibrary(write_set(tmp_path, **changes))


def test_errors_list_the_available_classes_and_runs(tmp_path: Path) -> None:
    write_set(tmp_path)
    with pytest.raises(DataError, match="no class 'rusty'; it has healthy, worn"):
        read(tmp_path, "rusty")
    with pytest.raises(DataError, match="no run '900rpm' of worn; it has 600rpm"):
        read(tmp_path, "worn", "900rpm")


def test_a_listed_file_that_does_not_exist(tmp_path: Path) -> None:
    (write_set(tmp_path) / NAME).unlink()
    assert read(tmp_path, "worn").samples == 4
    with pytest.raises(DataError, match=r"healthy__600rpm\.npz: meta\.json lists it, but it does not exist"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": COUNTS}, "no array x; it has y"),
        ({"x": COUNTS}, "x is int16 and there is no scale; expected the size of one step"),
        ({"x": COUNTS.T, "scale": SCALE}, r"x is int16 \(2, 4\); expected numbers, \(samples, 2\)"),
        ({"x": COUNTS[:, 0], "scale": SCALE}, r"x is int16 \(4,\); expected numbers"),
        ({"x": COUNTS[:0], "scale": SCALE}, r"x is int16 \(0, 2\); expected numbers"),
        ({"x": COUNTS.astype(str)}, r"x is <U6 \(4, 2\); expected numbers"),
        ({"x": COUNTS.astype(object)}, r"cannot be read \(Object arrays cannot be loaded"),
        ({"x": COUNTS, "scale": SCALE[:1]}, r"scale is float32 \(1,\); expected floats, \(2,\)"),
        ({"x": COUNTS, "scale": np.array(["a", "b"])}, r"scale is <U1 \(2,\); expected floats"),
        ({"x": np.array([[0, 1], [np.nan, 2]])}, "column 'x' has 1 NaN or infinite values, first at row 1"),
        ({"x": np.array([[0, 1], [2, 1e300]])}, "column 'y' has 1 NaN or infinite values, first at row 1"),
        ({"x": COUNTS, "scale": SCALE * np.inf}, "column 'x' has 4 NaN or infinite values"),
    ],
)
def test_files_with_invalid_arrays(arrays: dict[str, np.ndarray], message: str, tmp_path: Path) -> None:
    np.savez(write_set(tmp_path) / NAME, **arrays)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=f"healthy__600rpm.npz: {message}"):
        read(tmp_path)


def test_files_that_are_damaged(tmp_path: Path) -> None:
    path = write_set(tmp_path) / NAME
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    with pytest.raises(DataError, match=r"healthy__600rpm\.npz: not an \.npz file; copy the set again"):
        read(tmp_path)
    flipped = bytearray(whole)
    flipped[whole.index(COUNTS.tobytes())] ^= 1
    path.write_bytes(flipped)
    with pytest.raises(DataError, match=r"healthy__600rpm\.npz: cannot be read \(Bad CRC"):
        read(tmp_path)
