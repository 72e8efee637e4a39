from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from pyarrow import parquet

from cgsa.data.readers import open_signal, read_recording
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import Recording
from cgsa.errors import DataError


def example(samples: int = 2000) -> Recording:
    rng = np.random.default_rng(0)
    return Recording(
        rng.normal(size=(3, samples)).astype(np.float32),
        12_800.0,
        ("key_phase", "vibration_x", "speed"),
        ("V", "g", "m/s"),
        {"torque": rng.normal(size=samples).astype(np.float32), "speed": np.full(samples, 1000, np.float32)},
        label="gear_wear",
        source="rig",
        offset=512,
        notes=("key phase stops at 41.3 s; speed is 0 from there on", "ÅÖ"),
    )


def assert_same(one: Recording, other: Recording) -> None:
    for name in ("sample_rate", "channels", "units", "label", "source", "offset", "notes"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.signal.dtype == other.signal.dtype == np.float32
    np.testing.assert_array_equal(one.signal.view(np.uint32), other.signal.view(np.uint32))
    assert list(one.conditions) == list(other.conditions)
    for name, trace in one.conditions.items():
        np.testing.assert_array_equal(trace, other.conditions[name], name)


def test_round_trip(tmp_path: Path) -> None:
    write_parquet(example(), tmp_path / "a.parquet")

    read = read_recording(tmp_path / "a.parquet")

    assert_same(read, example())
    assert read.signal.flags.c_contiguous
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_round_trip_of_a_cut_and_of_many_row_groups(tmp_path: Path) -> None:
    long = example(1_100_000)
    cut = long.cut(100, 1_099_000)

    write_parquet(cut, tmp_path / "a.parquet")

    assert parquet.ParquetFile(tmp_path / "a.parquet").num_row_groups == 2
    assert_same(read_recording(tmp_path / "a.parquet"), cut)


@settings(max_examples=30, deadline=None)
@given(
    arrays(
        np.float32,
        array_shapes(min_dims=2, max_dims=2),
        elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
    ),
    st.one_of(st.none(), st.text()),
)
def test_any_recording_is_restored(signal: npt.NDArray[np.float32], label: str | None) -> None:
    names = tuple(f"c{row}" for row in range(signal.shape[0]))
    recording = Recording(signal, 50.0, names, ("g",) * len(names), label=label)
    with tempfile.TemporaryDirectory() as folder:
        write_parquet(recording, Path(folder) / "a.parquet")

        assert_same(read_recording(Path(folder) / "a.parquet"), recording)


def test_content_decides_if_the_suffix_is_unknown(tmp_path: Path) -> None:
    write_parquet(example(), tmp_path / "recording.data")

    assert_same(read_recording(tmp_path / "recording.data"), example())


def rewrite(path: Path, **changes: object) -> None:
    """Change metadata entries of a native file."""
    table = parquet.read_table(path)
    metadata = json.loads(table.schema.metadata[b"cgsa"]) | changes
    parquet.write_table(table.replace_schema_metadata({b"cgsa": json.dumps(metadata)}), path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "format version 2; this release reads version 1"),
        ({"version": "1"}, "format version 1; this release reads version 1"),
        ({"sample_rate": "fast"}, "sample_rate: expected a number, got 'fast'"),
        ({"sample_rate": -1.0}, "sample rate -1.0 Hz"),
        ({"units": ["g"]}, "3 signal rows but 3 channel names and 1 units"),
        ({"channels": ["key_phase", "vibration_x", "lost"]}, "no column 'lost'; it has key_phase"),
        ({"notes": None}, "notes: expected a list, got None"),
    ],
)
def test_invalid_metadata_is_refused(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(example(), path)
    rewrite(path, **changes)

    with pytest.raises(DataError, match=message):
        read_recording(path)


@pytest.mark.parametrize("metadata", [b"{", b"[1]", b"{}", b"\xff"])
def test_damaged_metadata_is_refused(tmp_path: Path, metadata: bytes) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"x": [1.0]}).replace_schema_metadata({b"cgsa": metadata}), path)

    with pytest.raises(DataError, match="its 'cgsa' metadata is damaged"):
        read_recording(path)


def test_columns_of_other_programs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    times = np.arange(100) / 1000
    table = {"time [s]": times, "ax [m/s2]": np.sin(times), "count": np.arange(100), "note": ["a"] * 100}
    parquet.write_table(pa.table(table), path)

    file = open_signal(path)

    assert (file.channels, file.units, file.sample_rate) == (("ax", "count"), ("m/s^2", None), 1000.0)
    assert "column 'note' (string) is not used" in file.notes
    np.testing.assert_array_equal(file.signal()[0], np.sin(times).astype(np.float32))


def test_a_table_without_a_clock_may_have_columns_of_text(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"x": np.arange(100.0), "note": ["a"] * 100}), path)

    file = open_signal(path)

    assert (file.channels, file.sample_rate) == (("x",), None)
    assert "column 'note' (string) is not used" in file.notes


def test_time_stamps_tell_the_rate(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    stamps = np.datetime64("2026-11-18T23:59:59.5", "us") + np.arange(100) * np.timedelta64(10_000, "us")
    parquet.write_table(pa.table({"stamp": stamps, "x": np.ones(100)}), path)

    assert open_signal(path).sample_rate == 100.0


def test_columns_of_another_type_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(example(), path)
    table = parquet.read_table(path)
    column = table["key_phase"].cast(pa.float64())
    parquet.write_table(table.set_column(0, "key_phase", column), path)

    with pytest.raises(DataError, match="column 'key_phase' is double; expected float"):
        read_recording(path)


def test_truncated_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(example(), path)
    path.write_bytes(path.read_bytes()[:-100])

    with pytest.raises(DataError, match=r"cannot read it as Parquet: .*; it may be damaged or truncated"):
        read_recording(path)


def test_nan_is_not_written(tmp_path: Path) -> None:
    recording = example()
    recording.signal[1, 7] = np.nan

    with pytest.raises(DataError, match="column 'vibration_x' has 1 NaN or infinite values, first at row 519"):
        write_parquet(recording, tmp_path / "a.parquet")


def test_nan_in_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(example(), path)
    table = parquet.read_table(path)
    holes = pa.array([None] * table.num_rows, pa.float32())
    parquet.write_table(table.set_column(0, "key_phase", holes), path)

    with pytest.raises(DataError, match="column 'key_phase' has 2000 NaN"):
        read_recording(path)


def test_channels_of_the_same_name_are_refused(tmp_path: Path) -> None:
    recording = replace(example(), channels=("a", "b", "a"))

    with pytest.raises(DataError, match="channel names are not unique: a, b, a"):
        write_parquet(recording, tmp_path / "a.parquet")
