from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cgsa.data.importing import key_columns
from cgsa.data.importing.key_columns import KeyColumns, RowsReader, recordings_in
from cgsa.data.read_options import ReadOptions
from cgsa.data.readers import open_signal
from cgsa.data.recording import FloatArray
from cgsa.errors import ConfigError, DataError

ROWS = 240
OPTIONS = ReadOptions(sample_rate=100.0, conditions={"rpm": "speed"})
KEYS = KeyColumns("state")


def table(rows: int = ROWS) -> pd.DataFrame:
    """Return two classes at two speeds each, in rows one after the other."""
    quarter = np.arange(rows) * 4 // rows
    return pd.DataFrame(
        {
            "vib": np.random.default_rng(0).normal(size=rows).astype(np.float32),
            "rpm": np.array([1200, 1500, 1200, 1500])[quarter],
            "state": np.array(["normal", "normal", "outer", "outer"])[quarter],
            "bearing": np.array(["A", "A", "B", "B"])[quarter],
        }
    )


def write(path: Path, rows: pd.DataFrame) -> Path:
    if path.suffix == ".parquet":
        rows.to_parquet(path)
    else:
        rows.to_csv(path, index=False, float_format="%.9g")
    return path


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_recordings_begin_where_a_column_changes(tmp_path: Path, suffix: str) -> None:
    rows = table()
    path = write(tmp_path / f"a.{suffix}", rows)
    found, [note] = recordings_in(path, KeyColumns("state", unit="bearing"), OPTIONS)
    assert [(one.label, one.unit, one.rows) for one in found] == [
        ("normal", "A", (0, 60)),
        ("normal", "A", (60, 120)),
        ("outer", "B", (120, 180)),
        ("outer", "B", (180, 240)),
    ]
    assert note == f"{path.name}: 4 recordings, each until state or bearing or rpm changes"
    reader = RowsReader(KeyColumns("state", unit="bearing"), OPTIONS)
    # In order and out of order; the second is read twice.
    for place in (0, 1, 2, 1, 3):
        recording = reader.read(found[place])
        part = rows[60 * place : 60 * (place + 1)]
        assert (recording.channels, recording.offset) == (("vib",), 60 * place)
        np.testing.assert_array_equal(recording.signal[0], part["vib"])
        np.testing.assert_array_equal(recording.conditions["speed"], part["rpm"])


def test_rows_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks end anywhere; the literal twin cuts the whole signal."""
    path = write(tmp_path / "a.csv", table())
    whole = open_signal(path).signal()

    def in_small_blocks(file: Path, *, array: str | None = None) -> object:
        opened = open_signal(file, array=array)
        return replace(opened, read=lambda _: pieces(whole))

    def pieces(signal: FloatArray) -> Iterator[FloatArray]:
        for start in range(0, ROWS, 7):
            yield signal[:, start : start + 7]

    monkeypatch.setattr(key_columns, "open_signal", in_small_blocks)
    found, _ = recordings_in(path, KEYS, OPTIONS)
    reader = RowsReader(KEYS, ReadOptions(sample_rate=100.0))
    for one in found:
        assert one.rows is not None
        np.testing.assert_array_equal(reader.read(one).signal, whole[:, slice(*one.rows)])


def test_a_measured_condition_divides_nothing(tmp_path: Path) -> None:
    rows = table(4000)
    rows["rpm"] += np.arange(4000) * 0.001
    found, _ = recordings_in(write(tmp_path / "a.csv", rows), KEYS, OPTIONS)
    assert [one.rows for one in found] == [(0, 2000), (2000, 4000)]


def test_rows_without_a_class_are_left_out(tmp_path: Path) -> None:
    rows = table()
    rows.loc[100:139, "state"] = None
    found, notes = recordings_in(write(tmp_path / "a.csv", rows), KEYS, ReadOptions())
    assert [one.rows for one in found] == [(0, 100), (140, 240)]
    assert notes[1] == "a.csv: 40 rows without state are left out"


def test_a_resampled_part_keeps_its_place(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", table())
    found, _ = recordings_in(path, KEYS, OPTIONS)
    recording = RowsReader(KEYS, replace(OPTIONS, resample_to=50.0)).read(found[2])
    assert (recording.samples, recording.offset) == (30, 60)


def test_columns_that_say_nothing_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", table())
    with pytest.raises(DataError, match="no column 'class'; it has vib, rpm, state, bearing"):
        recordings_in(path, KeyColumns("class"), ReadOptions())
    with pytest.raises(DataError, match="vib changes 239 times in 240 rows"):
        recordings_in(path, KeyColumns("vib"), ReadOptions())
    np.save(tmp_path / "a.npy", np.zeros(100))
    with pytest.raises(DataError, match="a npy file has no columns of text; --class-column reads CSV and Parquet"):
        recordings_in(tmp_path / "a.npy", KEYS, ReadOptions())
    empty = table()
    empty["state"] = None
    with pytest.raises(DataError, match="no row has a state"):
        recordings_in(write(tmp_path / "b.csv", empty), KEYS, ReadOptions())
    with pytest.raises(ConfigError, match="expected another one for each"):
        KeyColumns("state", unit="state")
