from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from cgsa.data.mcc5.recordings import GEARBOX_VIBRATIONS, gearbox_recording, motor_recording
from cgsa.data.run import SAMPLE_RATE
from cgsa.errors import DataError
from tests.data.mcc5.examples import GEARBOX_NAME, MOTOR_NAME, DoubleArray, columns


def clock(rows: int = 4 * SAMPLE_RATE, rate: float = SAMPLE_RATE) -> DoubleArray:
    return np.arange(rows) / rate


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


def test_an_unknown_name_gives_no_label() -> None:
    recording = gearbox_recording(columns(), name="run7.csv", source="here")

    assert recording.label is None
    assert "no label" in recording.notes[0]


def test_units_of_the_real_rows() -> None:
    folder = Path(os.environ.get("CGSA_DATA", Path(__file__).parents[3] / "../shared/data")) / "mcc5_thu_excerpts"
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
    # The rows are not successive, so there is no speed, but the share of rows within a pulse is the duty cycle.
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
            "time column falls back 3 times, first after 1.28 s",
            "no torque column",
        ]
    else:
        np.testing.assert_allclose(recording.conditions["torque"], 6 * torque, rtol=1e-6)
        assert recording.notes == ()


@pytest.mark.parametrize("count", [5, 6, 9])
def test_motor_columns_of_no_known_layout_are_refused(count: int) -> None:
    with pytest.raises(
        DataError, match=rf"{count} columns, {count} of them signals; a motor file has an optional time"
    ):
        motor_recording([*columns(), columns()[0]][:count], name=MOTOR_NAME, source="here")


def test_motor_torque_already_in_newton_metres() -> None:
    recording = motor_recording(columns(torque=19.5), name=MOTOR_NAME, source="here")

    assert np.median(recording.conditions["torque"]) == pytest.approx(19.5, rel=0.01)
    assert recording.notes == ("torque column reads 19.5 in a run of 20 Nm; assumed to be Nm",)


def test_motor_torque_of_an_unnamed_run_is_scaled() -> None:
    recording = motor_recording(columns(torque=19.5), name="run7.csv", source="here")

    assert np.median(recording.conditions["torque"]) == pytest.approx(6 * 19.5, rel=0.01)


def test_a_clock_with_few_digits_is_recognised() -> None:
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


def test_a_machine_that_stops_gives_no_note() -> None:
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

    assert recording.notes == ("key phase: 1 missing pulses bridged, 1 extra pulses ignored",)


def test_a_silent_key_phase_is_noted() -> None:
    raw = columns()
    raw[0][:] = 0

    recording = gearbox_recording(raw, name=GEARBOX_NAME, source="here")

    assert recording.notes == ("key phase has no pulses; speed is 0 throughout",)
