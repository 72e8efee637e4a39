"""What the caller adds to a file, and what happens where it is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cgsa.data.readers import open_signal, read_recording
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import Recording
from cgsa.errors import DataError

SIGNAL = np.random.default_rng(0).normal(size=(3, 50)).astype(np.float32)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Return a file that states names, but neither units nor rate."""
    path = tmp_path / "plain.csv"
    rows = "\n".join(",".join(f"{value:.9g}" for value in row) for row in SIGNAL.T.tolist())
    path.write_text(f"ax,ay,speed\n{rows}\n")
    return path


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """Return a file that states units and a rate, too."""
    path = tmp_path / "full.csv"
    rows = "\n".join(",".join(f"{value:.9g}" for value in row) for row in SIGNAL.T.tolist())
    path.write_text(f"# fs: 1000 Hz\nax [g],ay [g],speed [Hz]\n{rows}\n")
    return path


def test_what_is_missing_is_asked_for(plain: Path) -> None:
    with pytest.raises(DataError, match="states no sample rate; pass sample_rate="):
        read_recording(plain)
    with pytest.raises(DataError, match="states no unit of ax, ay, speed; pass units"):
        read_recording(plain, sample_rate=1000)


def test_what_is_missing_is_added(plain: Path) -> None:
    recording = read_recording(plain, sample_rate=1000, units=["g", "m/s²"], conditions=["speed"])

    assert (recording.channels, recording.units) == (("ax", "ay"), ("g", "m/s^2"))
    np.testing.assert_array_equal(recording.signal, SIGNAL[:2])
    np.testing.assert_array_equal(recording.conditions["speed"], SIGNAL[2])
    assert "sample rate 1000 Hz as given; the file states none" in recording.notes
    assert recording.source == str(plain.resolve())


def test_channels_are_chosen_and_renamed(full: Path) -> None:
    assert read_recording(full, channels=["ay", "ax"]).channels == ("ay", "ax")
    renamed = read_recording(full, channels={"ay": "motor_y"}, conditions={"speed": "n"}, units={"n": "rpm"})

    assert (renamed.channels, renamed.units) == (("motor_y",), ("g",))
    np.testing.assert_allclose(renamed.conditions["n"], 60 * SIGNAL[2], rtol=1e-6)


def test_units_are_converted_where_asked_and_noted(full: Path) -> None:
    recording = read_recording(full, channels=["ax"], units="m/s^2")

    np.testing.assert_allclose(recording.signal[0], 9.80665 * SIGNAL[0], rtol=1e-6)
    assert "ax converted from g to m/s^2" in recording.notes
    assert not any("converted" in note for note in read_recording(full).notes)


def test_a_recording_is_resampled_where_asked(full: Path) -> None:
    recording = read_recording(full, resample_to=2000)

    assert (recording.sample_rate, recording.samples) == (2000, 100)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sample_rate": 2000}, "states a sample rate of 1000 Hz, but sample_rate=2000 was given"),
        ({"sample_rate": -1}, "expected a positive number of Hz"),
        ({"channels": ["az"]}, "no channel 'az'; it has ax, ay, speed"),
        ({"channels": {"ax": "a", "ay": "a"}}, "two channels would be named alike"),
        ({"units": ["g"]}, "1 units were given for 3 channels"),
        ({"units": {"az": "g"}}, "units name 'az'; the channels are ax, ay, speed"),
        ({"units": "A"}, "channel 'ax': cannot convert 'g' to 'A'"),
        ({"conditions": ["ax", "ay", "speed"]}, "no channel is left"),
        ({"array": "x"}, "a CSV file holds a single table"),
    ],
)
def test_contradictions_are_refused(full: Path, given: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_recording(full, **given)  # type: ignore[arg-type]


def test_a_file_without_names_gets_them(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, SIGNAL.T)

    assert read_recording(path, sample_rate=10, units="g", channels=["a", "b", "c"]).channels == ("a", "b", "c")
    assert read_recording(path, sample_rate=10, units="g", channels=["column 2"]).channels == ("column 2",)
    with pytest.raises(DataError, match="names no channels; 2 names were given for 3 columns"):
        read_recording(path, sample_rate=10, units="g", channels=["a", "b"])


def test_a_native_file_keeps_its_conditions_and_label(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    conditions = {"speed": SIGNAL[2], "ax": SIGNAL[1]}
    write_parquet(Recording(SIGNAL[:1], 100.0, ("ax",), ("g",), conditions, label="wear"), path)

    file = open_signal(path)
    converted = read_recording(path, units="m/s^2")

    assert (file.channels, file.conditions, file.label) == (
        ("ax", "speed", "condition:ax"),
        ("speed", "condition:ax"),
        "wear",
    )
    assert (tuple(converted.conditions), converted.label, converted.units) == (("speed", "ax"), "wear", ("m/s^2",))
    np.testing.assert_array_equal(converted.conditions["ax"], SIGNAL[1])
