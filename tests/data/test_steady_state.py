from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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


def test_counts_are_scaled_and_their_mean_is_stated(tmp_path: Path) -> None:
    recording = read(write_set(tmp_path))
    assert recording.signal.dtype == np.float32
    assert recording.signal.flags.c_contiguous
    np.testing.assert_allclose(recording.signal, [[-1.5, -0.5, 0.5, 1.5], [1.0, 2.0, 3.0, 4.0]], atol=1e-6)
    assert recording.mean is not None
    np.testing.assert_allclose(recording.mean, [0.0, 2.5], atol=1e-6)
    assert recording.notes == ()


def test_floats_need_no_scale(tmp_path: Path) -> None:
    recording = read(write_set(tmp_path), "worn")
    np.testing.assert_array_equal(recording.centred().signal, [[-3, -1, 1, 3], [-15, -5, 5, 15]])


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


def test_without_units_and_runs_there_is_one_specimen(tmp_path: Path) -> None:
    library = SteadyStateLibrary(write_set(tmp_path))
    assert list(library.specimens()) == list(library.specimens_of("worn", "600rpm")) == [1]
    with pytest.raises(DataError, match="no specimen 2 of healthy, 600rpm; it has 1"):
        read(tmp_path, specimen=2)


def specimen_entry(state: str, specimen: str, at: str, **changes: object) -> dict[str, object]:
    return {
        "file": f"{state}_{specimen}__{at}.npz",
        "class": state,
        "condition": {"speed_rpm": float(at.removesuffix("rpm"))},
        **changes,
    }


def write_specimens(folder: Path, entries: Sequence[dict[str, object]]) -> Path:
    """Write a set with these entries; the samples of each file end with its place in the list."""
    write_set(folder, channels=["x"], files=entries)
    for place, about in enumerate(entries):
        np.savez(folder / str(about["file"]), x=np.array([[-place], [place]], dtype=np.float32))
    return folder


UNITS = [
    specimen_entry(state, unit, at, unit=unit)
    for state, units in (("worn_out", ("W9", "W7")), ("healthy", ("H2", "H3", "H1")))
    for unit in units
    for at in ("600rpm", "900rpm")
]
"""Two worn-out units and three healthy ones, not in the order of their names."""
RUNS = [
    specimen_entry(state, f"run{number}", at, run=number)
    for state, at, numbers in (
        ("healthy", "600rpm", (2, 4)),
        ("healthy", "900rpm", (1, 2)),
        ("worn", "600rpm", (1, 2, 3)),
        ("worn", "900rpm", (4,)),
    )
    for number in numbers
]
"""Another number of repetitions in every cell."""


def test_the_units_of_every_class_are_numbered_by_name(tmp_path: Path) -> None:
    library = SteadyStateLibrary(write_specimens(tmp_path, UNITS))
    assert list(library.specimens()) == [1, 2, 3]
    assert list(library.specimens_of("healthy", "600rpm")) == [1, 2, 3]
    assert list(library.specimens_of("worn_out", "600rpm")) == [1, 2]
    recording = library.get("worn_out", "900rpm", severity="H", specimen=1)
    assert recording.label == "worn_out"
    assert Path(recording.source).name == "worn_out_W7__900rpm.npz"
    assert recording.signal[0, -1] == 3
    with pytest.raises(DataError, match=r"no specimen 3 of worn_out, 900rpm; it has 1 \(W7\), 2 \(W9\)"):
        library.get("worn_out", "900rpm", severity="H", specimen=3)


def test_without_units_the_number_of_a_run_is_the_specimen(tmp_path: Path) -> None:
    library = SteadyStateLibrary(write_specimens(tmp_path, RUNS))
    assert list(library.specimens()) == [1, 2, 3, 4]
    assert list(library.specimens_of("healthy", "600rpm")) == [2, 4]
    assert list(library.specimens_of("worn", "900rpm")) == [4]
    assert library.get("healthy", "600rpm", severity="H", specimen=4).signal[0, -1] == 1
    with pytest.raises(DataError, match="no specimen 1 of healthy, 600rpm; it has 2, 4"):
        library.get("healthy", "600rpm", severity="H", specimen=1)


def test_a_unit_is_the_specimen_if_there_are_runs_too(tmp_path: Path) -> None:
    entries = [{**about, "run": 5} for about in UNITS]
    assert list(SteadyStateLibrary(write_specimens(tmp_path, entries)).specimens()) == [1, 2, 3]


def test_training_may_be_restricted_to_some_specimens(tmp_path: Path) -> None:
    library = SteadyStateLibrary(write_specimens(tmp_path, RUNS), train_on=[3, 2])
    assert list(library.specimens()) == [3, 2]
    assert list(library.specimens_of("healthy", "600rpm")) == [2]
    assert list(library.specimens_of("worn", "600rpm")) == [3, 2]
    assert list(library.specimens_of("worn", "900rpm")) == []
    # A stream may use the others.
    assert library.get("worn", "900rpm", severity="H", specimen=4).samples == 2
    with pytest.raises(DataError, match="no specimen 7 to train on; it has 1, 2, 3, 4"):
        SteadyStateLibrary(tmp_path, train_on=[1, 7])


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cells=st.sets(st.tuples(st.sampled_from("ab"), st.sampled_from(["K1", "K2", "K3"]), st.sampled_from("xy"))).filter(
        bool
    ),
    data=st.data(),
)
def test_specimens_are_those_of_the_listed_files(
    cells: set[tuple[str, str, str]], data: st.DataObject, tmp_path: Path
) -> None:
    """In every order of the entries, a specimen has a run if, and only if, its unit is listed with it."""
    entries = [
        {"file": f"{state}_{unit}__{run}.npz", "class": state, "unit": unit, "condition": {"load": 1}}
        for state, unit, run in data.draw(st.permutations(sorted(cells)))
    ]
    library = SteadyStateLibrary(write_set(tmp_path, files=entries))
    for state in {state for state, _, _ in cells}:
        units = sorted({unit for known, unit, _ in cells if known == state})
        for run in {run for known, _, run in cells if known == state}:
            found = [units[specimen - 1] for specimen in library.specimens_of(state, run)]
            assert found == [unit for unit in units if (state, unit, run) in cells]


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
        ({"files": entry(**{"class": "heal"})}, r"healthy__600rpm.npz has class 'heal'; expected 'healthy'"),
        (
            {"files": entry(**{"class": ""}, file="_a__600rpm.npz")},
            r"_a__600rpm.npz has class ''; expected '_a', as in",
        ),
        ({"files": entry(**{"class": None}, file="None__600rpm.npz")}, r"None__600rpm.npz has class None; expected"),
        ({"files": entry(unit=7)}, r"healthy__600rpm.npz has unit 7.0; expected a name such as K001"),
        ({"files": entry(unit="")}, r"healthy__600rpm.npz has unit ''; expected a name such as K001"),
        ({"files": entry(run=0)}, r"healthy__600rpm.npz has run 0.0; expected the number of a repetition: 1, 2, ..."),
        ({"files": entry(run=1.5)}, r"healthy__600rpm.npz has run 1.5; expected the number of a repetition"),
        ({"files": entry(run="one")}, r"healthy__600rpm.npz has run 'one'; expected the number of a repetition"),
        (
            {"files": [*entry(unit="A"), *entry()]},
            r"healthy__600rpm.npz has no unit, others have one; expected it in all",
        ),
        ({"files": [*entry(), *entry(run=2)]}, r"healthy__600rpm.npz has no run, others have one; expected it in all"),
        (
            {"files": [*entry(), *entry(file="healthy_new__600rpm.npz")]},
            "healthy__600rpm.npz and healthy_new__600rpm.npz are both specimen 1 of healthy, 600rpm; expected",
        ),
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
