from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from cgsa.data.read_options import ReadOptions
from cgsa.data.recording import Recording
from cgsa.errors import ConfigError, DataError
from tests.data.made_machine import RATE, write_csv_files

CONDITIONS: Mapping[str, str] = {"speed": "rpm"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that states units, but no rate."""
    return write_csv_files(tmp_path, speeds=[600], clock=False) / "healthy_600rpm_1.csv"


def read_for(path: Path, options: ReadOptions | None = None, **wanted: object) -> Recording:
    model = {"sample_rate": RATE, "channels": ["acc_y", "acc_x"], "units": ["g", "m/s^2"], "conditions": CONDITIONS}
    return (options or ReadOptions()).read_for(path, **{**model, **wanted})  # type: ignore[arg-type]


def test_words_of_a_command_line() -> None:
    found = ReadOptions.parse(channels="x, y", units="x=g,y=V", conditions=["n=speed,torque"], rate=10.0)
    assert found == ReadOptions(10.0, ("x", "y"), {"x": "g", "y": "V"}, {"n": "speed", "torque": "torque"})


@pytest.mark.parametrize("words", [{"channels": "x,y=z"}, {"units": "g,"}, {"rate": 0.0}, {"resample": -1.0}])
def test_wrong_words_are_refused(words: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        ReadOptions.parse(**words)  # type: ignore[arg-type]


def test_a_unit_that_nobody_knows_is_called_so(path: Path) -> None:
    path.write_text(path.read_text().replace("g;g\n", "", 1))
    recording = ReadOptions(sample_rate=RATE).read(path)
    assert recording.units == ("as recorded", "as recorded")
    assert ReadOptions(sample_rate=RATE, channels={"acc_x": "x"}, units={"x": "g"}).read(path).units == ("g",)


def test_the_model_states_what_the_file_does_not(path: Path) -> None:
    recording = read_for(path)
    assert recording.sample_rate == RATE
    assert recording.channels == ("acc_y", "acc_x")
    assert recording.units == ("g", "m/s^2")
    assert "acc_x converted from g to m/s^2" in recording.notes


def test_a_condition_of_the_model_is_read_as_such(path: Path) -> None:
    recording = read_for(path, channels=["acc_x"], units=["g"], conditions={"acc_y": ""})
    assert list(recording.conditions) == ["acc_y"]


def test_another_rate_is_refused_unless_it_is_resampled(tmp_path: Path) -> None:
    path = write_csv_files(tmp_path, speeds=[600]) / "healthy_600rpm_1.csv"
    with pytest.raises(DataError, match="256 Hz; the model was trained at 128 Hz; resample it with --resample 128"):
        read_for(path, sample_rate=128.0)
    recording = read_for(path, ReadOptions(resample_to=128.0), sample_rate=128.0)
    assert recording.sample_rate == 128
    assert recording.samples == 512
