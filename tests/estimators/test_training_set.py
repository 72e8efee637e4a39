from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from cgsa.data.levels import is_speed
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import Recording
from cgsa.errors import DataError
from cgsa.estimators.training_set import (
    condition_columns,
    conditions_of,
    holds_recordings,
    recordings_of,
    unit_numbers,
    with_conditions,
)

SIGNAL = np.arange(12, dtype=np.float32).reshape(2, 6)
RECORDING = Recording(SIGNAL, 10.0, ("a", "b"), ("g", "g"), conditions={"torque": np.ones(6, np.float32)}, source="x")


def read(given: Any, **stated: Any) -> list[Recording]:
    return recordings_of(given, **{"sample_rate": None, "channels": None, "channel_units": None, **stated})


@pytest.mark.parametrize(
    "given",
    [
        np.stack([SIGNAL, SIGNAL]),
        [SIGNAL.T, SIGNAL.T],
        [RECORDING, RECORDING],
        [pd.DataFrame(SIGNAL.T, columns=["a", "b"])] * 2,
        [pl.DataFrame({"a": SIGNAL[0], "b": SIGNAL[1]})] * 2,
    ],
    ids=["array", "arrays", "recordings", "pandas", "polars"],
)
def test_every_form_gives_the_same_recordings(given: Any) -> None:
    first, second = read(given)
    for one in (first, second):
        np.testing.assert_array_equal(one.signal, SIGNAL)
    assert first.source != second.source


def test_files_are_read(tmp_path: Path) -> None:
    write_parquet(RECORDING, tmp_path / "x.parquet")
    [found] = read([tmp_path / "x.parquet"], channels=["b"])
    np.testing.assert_array_equal(found.signal, SIGNAL[1:])


def test_a_flat_array_has_one_channel() -> None:
    first, _ = read(SIGNAL)
    assert (first.channels, first.sample_rate) == (("channel_1",), 1.0)
    np.testing.assert_array_equal(first.signal, SIGNAL[:1])


def test_lists_of_numbers_are_one_array_and_lists_of_arrays_are_recordings() -> None:
    assert not holds_recordings(SIGNAL.tolist())
    assert not holds_recordings(list(SIGNAL))
    assert holds_recordings([SIGNAL])
    assert holds_recordings(["x.csv"])


@pytest.mark.parametrize(
    ("given", "stated", "message"),
    [
        ([SIGNAL], {}, "more samples than channels; transpose"),
        ([SIGNAL.T], {"channels": ["a"]}, "2 channels; channels= names 1: a"),
        ([RECORDING], {"sample_rate": 20}, "recording 0, x: 10 Hz; expected sample_rate=20"),
        ([np.full((6, 2), np.nan)], {}, "has 6 NaN or infinite values"),
        ([np.zeros((6, 2), dtype="U1")], {}, "recording 0: values of type <U1"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(given: Any, stated: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(given, **stated)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ([1, 2], ["condition"]),
        (pd.Series([1, 2], name="speed_rpm"), ["speed_rpm"]),
        ([[1, 2], [3, 4]], ["condition_1", "condition_2"]),
        ({"load": [1, 2]}, ["load"]),
        (pd.DataFrame({"load": [1, 2]}), ["load"]),
        (pl.DataFrame({"load": [1, 2], "speed": [3, 4]}), ["load", "speed"]),
    ],
)
def test_conditions_are_named_columns(given: Any, names: list[str]) -> None:
    assert list(condition_columns(given, 2)) == names


@pytest.mark.parametrize("given", [[1, 2, 3], [1, np.nan], {"load": [1]}, np.zeros((2, 2, 2)), ["a", "b"]])
def test_conditions_that_are_no_number_for_each_recording_are_refused(given: Any) -> None:
    with pytest.raises(DataError, match="condition"):
        condition_columns(given, 2)


def test_given_conditions_replace_those_of_the_recordings() -> None:
    [kept] = with_conditions([RECORDING], None)
    assert set(kept.conditions) == {"torque"}
    [found] = with_conditions([RECORDING], {"speed_rpm": [900]})
    assert {name: set(trace.tolist()) for name, trace in found.conditions.items()} == {"speed_rpm": {900.0}}


def test_a_condition_has_the_range_of_the_recordings_and_the_unit_of_its_name() -> None:
    [speed] = conditions_of(with_conditions([RECORDING, RECORDING], {"speed_rpm": [900, 1200]}))
    assert (speed.minimum, speed.maximum) == (900, 1200)
    assert is_speed(speed)


def test_without_conditions_there_is_a_constant_one() -> None:
    [found] = conditions_of(read(SIGNAL))
    assert (found.name, found.minimum, found.maximum) == ("condition", 0, 1)


def test_units_are_numbered() -> None:
    assert unit_numbers(["b", "a", "b"], 3) == [2, 1, 2]
    assert unit_numbers(None, 2) == [1, 1]
    with pytest.raises(DataError, match="expected one for each of 3 recordings"):
        unit_numbers([1, 2], 3)
