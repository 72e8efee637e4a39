from __future__ import annotations

import os
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

from cgsa.data.mcc5 import (
    GEARBOX_COLUMNS,
    GEARBOX_VIBRATIONS,
    MachineKind,
    Mcc5FileName,
    find_runs,
    gearbox_recording,
    motor_recording,
    write_csv,
)
from cgsa.data.readers import read_recording
from cgsa.data.recording import Recording
from cgsa.data.run import SAMPLE_RATE, Run
from cgsa.errors import DataError

DoubleArray = npt.NDArray[np.float64]
GEARBOX_NAME = "gear_wear_H_torque_circulation_1000rpm_20Nm.csv"
MOTOR_NAME = "broken_bar_and_bearing_inner_H_torque_circulation_20Nm_2000rpm_230412101530.csv"


def columns(rows: int = 4 * SAMPLE_RATE, *, rpm: float = 1500, torque: float = 20 / 6) -> list[DoubleArray]:
    """Eight raw columns of a machine at constant speed and load."""
    rng = np.random.default_rng(0)
    turns = np.arange(rows) * rpm / 60 / SAMPLE_RATE - 0.5
    key_phase = np.where(turns % 1 < 0.11, 3.8, 0.0) + rng.normal(0, 0.05, rows)
    return [key_phase, rng.normal(torque, 0.01, rows), *rng.normal(0, 1, (6, rows))]


def clock(rows: int = 4 * SAMPLE_RATE, rate: float = SAMPLE_RATE) -> DoubleArray:
    return np.arange(rows) / rate


def same(one: Recording, other: Recording) -> None:
    """Compare two recordings to the last bit, the sign of zeros included."""
    assert one.channels == other.channels
    assert one.units == other.units
    assert list(one.conditions) == list(other.conditions)
    np.testing.assert_array_equal(one.signal.view(np.uint32), other.signal.view(np.uint32))
    for name, trace in one.conditions.items():
        np.testing.assert_array_equal(trace.view(np.uint32), other.conditions[name].view(np.uint32), name)


@pytest.mark.parametrize(
    ("name", "state", "severity", "run"),
    [
        ("health_speed_circulation_20Nm-3000rpm.csv", "health", None, Run("speed", 20, 3000)),
        ("health_torque_circulation_1000rpm_10Nm.csv", "health", None, Run("torque", 10, 1000)),
        ("miss_teeth_torque_circulation_2000rpm_20Nm.csv", "miss_teeth", None, Run("torque", 20, 2000)),
        ("gear_wear_H_torque_circulation_1000rpm_10Nm.csv", "gear_wear", "H", Run("torque", 10, 1000)),
        ("gear_pitting_M_speed_circulation_20Nm-1000rpm.csv", "gear_pitting", "M", Run("speed", 20, 1000)),
        ("teeth_break_single_L_speed_circulation_10Nm_1000rpm.csv", "teeth_break", "L", Run("speed", 10, 1000)),
        (
            "teeth_break_and_bearing_inner_L_torque_circulation_3000rpm-20Nm.csv",
            "teeth_break_and_bearing_inner",
            "L",
            Run("torque", 20, 3000),
        ),
        ("bend_speed_circulation_40Nm_1000rpm.csv", "bend", None, Run("speed", 40, 1000)),
        ("winding_L_torque_circulation_40Nm_2000rpm_230412101530d.csv", "winding", "L", Run("torque", 40, 2000)),
        (MOTOR_NAME, "broken_bar_and_bearing_inner", "H", Run("torque", 20, 2000)),
        (
            "bearing_outer_H_and_inner_H_speed_circulation_20Nm_3000rpm_230412101530.csv",
            "bearing_outer_and_inner",
            "H",
            Run("speed", 20, 3000),
        ),
        ("bearing_outer_H_and_inner_L_speed_circulation_20Nm_3000rpm", "bearing_outer_H_and_inner_L", None, None),
    ],
)
def test_file_names(name: str, state: str, severity: str | None, run: Run | None) -> None:
    parsed = Mcc5FileName.parse(name)

    assert (parsed.state, parsed.severity) == (state, severity)
    assert run is None or parsed.run == run


@pytest.mark.parametrize(
    "name",
    ["notes.csv", "._health_speed_circulation_20Nm-3000rpm.csv", "health_20Nm_1000rpm.csv", "_torque_circulation_1Nm"],
)
def test_other_names_are_refused_with_an_example(name: str) -> None:
    with pytest.raises(DataError, match=r"no MCC5-THU name; expected something like 'gear_wear_H_torque"):
        Mcc5FileName.parse(name)


def test_gearbox_units_names_and_speed() -> None:
    raw = columns()

    recording = gearbox_recording(raw, name=GEARBOX_NAME, source="here")

    assert recording.channels == ("key_phase", *GEARBOX_VIBRATIONS)
    assert recording.units == ("V", "g", "g", "g", "g", "g", "g")
    assert recording.signal.dtype == np.float32
    assert recording.signal.flags.c_contiguous
    assert (recording.label, recording.source, recording.sample_rate) == ("gear_wear", "here", SAMPLE_RATE)
    np.testing.assert_array_equal(recording.signal[6], raw[7].astype(np.float32))
    np.testing.assert_allclose(recording.conditions["torque"], 6 * raw[1], rtol=1e-6)
    np.testing.assert_allclose(recording.conditions["speed"], 1500, rtol=0.005)
    assert recording.notes == ()


def test_gearbox_needs_eight_columns() -> None:
    with pytest.raises(DataError, match="7 columns; a gearbox file has 8: speed, torque"):
        gearbox_recording(columns()[1:], name=GEARBOX_NAME, source="here")


def test_columns_must_be_of_one_length() -> None:
    raw = columns()
    raw[4] = raw[4][:-1]

    with pytest.raises(DataError, match="columns of different lengths"):
        gearbox_recording(raw, name=GEARBOX_NAME, source="here")


def test_a_strange_name_costs_the_label_only() -> None:
    recording = gearbox_recording(columns(), name="run7.csv", source="here")

    assert recording.label is None
    assert "no label" in recording.notes[0]


def test_units_of_the_real_rows() -> None:
    folder = Path(os.environ.get("CGSA_DATA", Path(__file__).parents[2] / "../shared/data")) / "mcc5_thu_excerpts"
    if not folder.is_dir():
        pytest.skip(f"no real excerpts in {folder}; set CGSA_DATA to the folder that holds mcc5_thu_excerpts")
    with np.load(folder / "mpos_rows_ratio5.npz") as rows:
        recording = gearbox_recording(list(rows["x"].T), name=GEARBOX_NAME, source="excerpt")

    torque = recording.conditions["torque"]
    assert np.median(torque) == pytest.approx(20, rel=0.06)
    assert np.all((torque > 18) & (torque < 23))
    key_phase = recording.signal[0]
    assert -0.4 < key_phase.min() < -0.2
    assert 3.7 < key_phase.max() < 4.0
    # The rows are single ones, so no speed; but the share of rows within a pulse is the duty.
    assert np.mean(key_phase > 2) == pytest.approx(0.11, abs=0.03)


@pytest.mark.parametrize("layout", ["plain", "time", "early"])
def test_motor_layouts(layout: str) -> None:
    raw = columns()
    torque = raw.pop(1)
    given = {
        "plain": [raw[0], torque, *raw[1:]],
        "time": [clock(), raw[0], torque, *raw[1:]],
        "early": [clock() % 1.28, *raw, np.full(raw[0].size, np.nan)],
    }[layout]

    recording = motor_recording(given, name=MOTOR_NAME, source="here")

    assert recording.channels[1:] == (
        "vibration_x",
        "vibration_y",
        "vibration_z",
        "current_a",
        "current_b",
        "current_c",
    )
    assert recording.units == ("V", "g", "g", "g", "A", "A", "A")
    assert recording.label == "broken_bar_and_bearing_inner"
    np.testing.assert_allclose(recording.signal[1:], 0.1 * np.array(raw[1:]), rtol=1e-6)
    np.testing.assert_allclose(recording.conditions["speed"], 1500, rtol=0.005)
    if layout == "early":
        assert "torque" not in recording.conditions
        assert [note.partition(" (")[0].partition(";")[0] for note in recording.notes] == [
            "last column holds only NaN",
            "time column starts over 3 times, first after 1.28 s",
            "no torque column",
        ]
    else:
        np.testing.assert_allclose(recording.conditions["torque"], 6 * torque, rtol=1e-6)
        assert recording.notes == ()


@pytest.mark.parametrize("count", [5, 6, 9])
def test_motor_columns_that_fit_no_layout_are_refused(count: int) -> None:
    with pytest.raises(DataError, match=rf"{count} columns, {count} of them signals; a motor file has time \(or not\)"):
        motor_recording([*columns(), columns()[0]][:count], name=MOTOR_NAME, source="here")


def test_motor_torque_already_in_newton_metres() -> None:
    recording = motor_recording(columns(torque=19.5), name=MOTOR_NAME, source="here")

    assert np.median(recording.conditions["torque"]) == pytest.approx(19.5, rel=0.01)
    assert recording.notes == ("torque column reads 19.5 in a run of 20 Nm; taken as Nm",)


def test_motor_torque_of_a_nameless_run_is_scaled() -> None:
    recording = motor_recording(columns(torque=19.5), name="run7.csv", source="here")

    assert np.median(recording.conditions["torque"]) == pytest.approx(6 * 19.5, rel=0.01)


def test_a_clock_with_few_digits_is_still_one() -> None:
    recording = motor_recording([np.round(clock(), 4), *columns()], name=MOTOR_NAME, source="here")

    assert len(recording.channels) == 7


@pytest.mark.parametrize("rate", [12_500, 13_000, 25_600])
def test_a_clock_of_another_rate_is_refused(rate: int) -> None:
    with pytest.raises(DataError, match=f"time column steps at {rate} Hz; MCC5-THU files have 12800 Hz"):
        motor_recording([clock(rate=rate), *columns()], name=MOTOR_NAME, source="here")


def test_key_phase_that_stops_early_is_noted() -> None:
    raw = columns()
    raw[0][2 * SAMPLE_RATE :] = 0

    recording = gearbox_recording(raw, name=GEARBOX_NAME, source="here")

    assert recording.notes == ("key phase stops at 2.0 s; speed is 0 from there on",)


def test_a_machine_that_stops_is_not_odd() -> None:
    raw = columns()
    raw[0][2 * SAMPLE_RATE :] = 0
    for vibration in raw[2:]:
        vibration[2 * SAMPLE_RATE :] *= 0.05

    assert gearbox_recording(raw, name=GEARBOX_NAME, source="here").notes == ()


def test_missing_and_extra_pulses_are_noted() -> None:
    raw = columns()
    turn = round(60 / 1500 * SAMPLE_RATE)
    raw[0][20 * turn : 21 * turn] = 0
    raw[0][41 * turn - 40 : 41 * turn - 36] = 3.8

    recording = gearbox_recording(raw, name=GEARBOX_NAME, source="here")

    assert recording.notes == ("key phase: 1 missing pulses bridged, 1 extra pulses left out",)


def test_a_silent_key_phase_is_noted() -> None:
    raw = columns()
    raw[0][:] = 0

    recording = gearbox_recording(raw, name=GEARBOX_NAME, source="here")

    assert recording.notes == ("key phase has no pulses; speed is 0 throughout",)


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_find_runs_skips_junk_and_reads_specimens(tmp_path: Path) -> None:
    first = touch(tmp_path / "a" / GEARBOX_NAME)
    second = touch(tmp_path / "specimen_2" / GEARBOX_NAME)
    touch(tmp_path / "__MACOSX" / "a" / GEARBOX_NAME)
    touch(tmp_path / "a" / f"._{GEARBOX_NAME}")
    touch(tmp_path / "a" / "readme.txt")
    touch(tmp_path / "a" / "table.csv")

    index = find_runs(tmp_path)

    assert [(file.path, file.specimen) for file in index.files] == [(first, 1), (second, 2)]
    assert index.files[0].name == Mcc5FileName.parse(GEARBOX_NAME)
    assert len(index.skipped) == 4
    assert index.notes == (f"4 files that are no runs skipped, such as {Path('__MACOSX', 'a', GEARBOX_NAME)}",)
    assert find_runs(tmp_path / "specimen_2").files[0].specimen == 2


def test_find_runs_keeps_the_first_of_a_run_recorded_twice(tmp_path: Path) -> None:
    name = "bearing_outer_H_speed_circulation_20Nm_3000rpm"
    first = touch(tmp_path / f"{name}_230412101530.csv")
    second = touch(tmp_path / f"{name}_230412114500d.csv")

    index = find_runs(tmp_path)

    assert [file.path for file in index.files] == [first]
    assert index.notes == (f"{second.name} is another recording of {first.name}; left out",)


def test_find_runs_wants_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is no folder"):
        find_runs(tmp_path / "nowhere")


def test_gearbox_file_has_the_header_of_the_data_set(tmp_path: Path) -> None:
    raw = [np.round(column, 4) for column in columns()]
    path = tmp_path / GEARBOX_NAME
    recording = gearbox_recording(raw, name=path.name, source="here")

    write_csv(recording, path, machine="gearbox")

    header, first, *_ = path.read_text().splitlines()
    assert header == ",".join(GEARBOX_COLUMNS)
    assert [float(cell) for cell in first.split(",")] == [column[0] for column in raw]
    same(read_recording(path), recording)


def test_motor_file_has_nine_columns_and_no_header(tmp_path: Path) -> None:
    raw = [np.round(column, 4) for column in columns()]
    path = tmp_path / MOTOR_NAME
    recording = motor_recording(raw, name=path.name, source="here")

    write_csv(recording, path, machine="motor")

    second = path.read_text().splitlines()[1]
    assert [float(cell) for cell in second.split(",")] == [1 / SAMPLE_RATE, *(column[1] for column in raw)]
    same(read_recording(path), recording)


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=60, deadline=None)
@given(table=arrays(np.float32, (8, 16), elements=finite), machine=st.sampled_from(["gearbox", "motor"]))
def test_any_recording_survives_its_file(table: npt.NDArray[np.float32], machine: MachineKind) -> None:
    wide = np.tile(table, (1, 64))  # the length of a recording
    make = gearbox_recording if machine == "gearbox" else motor_recording
    # Any key phase has its speed; all else may hold whatever a float32 can.
    made = make([wide[0], *np.zeros((7, 1024))], name="any.csv", source="here")
    recording = replace(made, signal=wide[:7], conditions={**made.conditions, "torque": wide[7]})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any.csv"
        write_csv(recording, path, machine=machine)

        same(read_recording(path), recording)


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
