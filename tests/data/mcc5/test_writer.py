from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cgsa.data.mcc5.recordings import GEARBOX_COLUMNS, gearbox_recording, motor_recording
from cgsa.data.mcc5.writer import write_csv
from cgsa.data.readers import read_recording
from cgsa.data.recording import Recording
from cgsa.data.run import SAMPLE_RATE
from cgsa.errors import DataError
from tests.data.mcc5.examples import GEARBOX_NAME, MOTOR_NAME, columns


def assert_same(one: Recording, other: Recording) -> None:
    """Compare every bit of two recordings, including the sign of zeros."""
    assert one.channels == other.channels
    assert one.units == other.units
    assert list(one.conditions) == list(other.conditions)
    np.testing.assert_array_equal(one.signal.view(np.uint32), other.signal.view(np.uint32))
    for name, trace in one.conditions.items():
        np.testing.assert_array_equal(trace.view(np.uint32), other.conditions[name].view(np.uint32), name)


def test_gearbox_file_has_the_header_of_the_data_set(tmp_path: Path) -> None:
    raw = [np.round(column, 4) for column in columns()]
    path = tmp_path / GEARBOX_NAME
    recording = gearbox_recording(raw, name=path.name, source="here")

    write_csv(recording, path, machine="gearbox")

    header, first, *_ = path.read_text().splitlines()
    assert header == ",".join(GEARBOX_COLUMNS)
    assert [float(cell) for cell in first.split(",")] == [column[0] for column in raw]
    assert_same(read_recording(path), recording)


def test_motor_file_has_nine_columns_and_no_header(tmp_path: Path) -> None:
    raw = [np.round(column, 4) for column in columns()]
    path = tmp_path / MOTOR_NAME
    recording = motor_recording(raw, name=path.name, source="here")

    write_csv(recording, path, machine="motor")

    second = path.read_text().splitlines()[1]
    assert [float(cell) for cell in second.split(",")] == [1 / SAMPLE_RATE, *(column[1] for column in raw)]
    assert_same(read_recording(path), recording)


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=60, deadline=None)
@given(table=arrays(np.float32, (8, 16), elements=finite), machine=st.sampled_from(["gearbox", "motor"]))
def test_any_recording_is_restored_from_its_file(table: npt.NDArray[np.float32], machine: str) -> None:
    wide = np.tile(table, (1, 64))  # the length of a recording
    make = gearbox_recording if machine == "gearbox" else motor_recording
    # The speed follows from the key phase; everything else may be any float32.
    made = make([wide[0], *np.zeros((7, 1024))], name="any.csv", source="here")
    recording = replace(made, signal=wide[:7], conditions={**made.conditions, "torque": wide[7]})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any.csv"
        write_csv(recording, path, machine=machine)

        assert_same(read_recording(path), recording)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conditions": {}}, "no torque condition, which a gearbox file needs"),
        ({"sample_rate": 1000.0}, "sampled at 1000 Hz; a gearbox file has 12800 Hz"),
        ({"channels": tuple("abcdefg")}, "no channel 'key_phase'"),
    ],
)
def test_recordings_that_do_not_fit_the_file_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    recording = gearbox_recording(columns(), name=GEARBOX_NAME, source="here")

    with pytest.raises(DataError, match=message):
        write_csv(replace(recording, **change), tmp_path / GEARBOX_NAME, machine="gearbox")

    assert list(tmp_path.iterdir()) == []
