from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy

from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import Recording
from cgsa.errors import DataError
from cgsa.estimators.signals import SignalFormat, read_signal
from tests.estimators.toy import windows_of
from tests.machines import ENSEMBLE_SPEC, RATE, ensemble_manifest
from tests.starts import steady

MANIFEST = ensemble_manifest()
SAMPLES = steady("wear")
RECORDING = Recording(SAMPLES, RATE, ("a", "b"), ("g", "g"), source="pump")


def refusal(given_samples: Any, **stated: Any) -> str:
    with pytest.raises(DataError) as caught:
        read_signal(given_samples, MANIFEST, SignalFormat(**stated))
    return str(caught.value)


@pytest.mark.parametrize(
    "form",
    [
        SAMPLES,
        SAMPLES.T,
        SAMPLES.astype(np.float64)[:, ::1],
        torch.from_numpy(SAMPLES),
        SAMPLES.tolist(),
        pd.DataFrame(SAMPLES.T, columns=["a", "b"]),
        pl.DataFrame({"speed": SAMPLES[0], "b": SAMPLES[1], "a": SAMPLES[0]}),
        RECORDING,
        windows_of(SAMPLES, ENSEMBLE_SPEC.step),
    ],
    ids=lambda form: type(form).__name__,
)
def test_every_form_gives_the_same_samples(form: Any) -> None:
    found = read_signal(form, MANIFEST, SignalFormat())
    np.testing.assert_array_equal(found.samples, SAMPLES[:, : found.samples.shape[1]])
    assert found.samples.shape[1] > SAMPLES.shape[1] - ENSEMBLE_SPEC.step
    assert found.step == ENSEMBLE_SPEC.step


def test_a_file_is_read_as_a_recording(tmp_path: Path) -> None:
    write_parquet(RECORDING, tmp_path / "pump.parquet")
    found = read_signal(str(tmp_path / "pump.parquet"), MANIFEST, SignalFormat())
    np.testing.assert_array_equal(found.samples, SAMPLES)
    assert found.states_rate


@given(st.permutations(["a", "b", "c"]))
def test_named_channels_are_brought_into_the_order_of_the_model(names: list[str]) -> None:
    rows = {"a": SAMPLES[0], "b": SAMPLES[1], "c": SAMPLES[0] + 1}
    found = read_signal(np.stack([rows[name] for name in names]), MANIFEST, SignalFormat(channels=names))
    np.testing.assert_array_equal(found.samples, SAMPLES)


@given(st.integers(1, ENSEMBLE_SPEC.length), st.integers(1, 8))
def test_windows_are_joined_where_they_overlap(step: int, count: int) -> None:
    windows = windows_of(SAMPLES, step)[:count]
    found = read_signal(windows, MANIFEST, SignalFormat())
    assert found.step == (step if len(windows) > 1 else ENSEMBLE_SPEC.length)
    np.testing.assert_array_equal(found.samples, SAMPLES[:, : found.samples.shape[1]])
    assert ENSEMBLE_SPEC.length + (len(windows) - 1) * step == found.samples.shape[1]


def test_windows_that_share_nothing_stand_alone() -> None:
    windows = windows_of(SAMPLES, ENSEMBLE_SPEC.length)[::2]
    found = read_signal(windows, MANIFEST, SignalFormat())
    assert found.step == ENSEMBLE_SPEC.length
    np.testing.assert_array_equal(found.samples, np.concatenate(list(windows), axis=1))


def test_windows_with_other_channels_are_brought_into_order_too() -> None:
    windows = windows_of(SAMPLES, ENSEMBLE_SPEC.length)
    found = read_signal(windows[:, ::-1], MANIFEST, SignalFormat(channels=["b", "a"]))
    np.testing.assert_array_equal(found.samples, SAMPLES[:, : found.samples.shape[1]])


def test_a_wrong_rate_is_refused_with_both() -> None:
    assert "500 Hz; the model was trained at 1000 Hz" in refusal(SAMPLES, sample_rate=500)
    assert "pump: 500 Hz" in refusal(replace(RECORDING, sample_rate=500.0))
    assert "nan Hz" in refusal(SAMPLES, sample_rate=float("nan"))
    read_signal(SAMPLES, MANIFEST, SignalFormat(sample_rate=1000.2))


def test_wrong_channels_are_refused_with_those_of_the_model() -> None:
    assert "the model needs each of a, b" in refusal(SAMPLES, channels=["a", "x"])
    assert "the model needs each of a, b" in refusal(SAMPLES, channels=["a", "a", "b"])
    assert "expected (2, samples) or (samples, 2)" in refusal(SAMPLES[:1])
    assert "expected (windows, 2, 128)" in refusal(np.zeros((4, 2, 64)))
    assert "no channel 'b'" in refusal(RECORDING.select(["a"]))
    assert "leave channels out" in refusal(pd.DataFrame({"a": [1.0]}), channels=["a"])


def test_wrong_units_are_refused_with_those_of_the_model() -> None:
    assert "a in mm/s instead of g, b in mm/s instead of g" in refusal(SAMPLES, units="mm/s")
    assert "b in V instead of g; convert" in refusal(SAMPLES, channels=["b", "a"], units=["V", "g"])
    assert "1 units for 2 channels" in refusal(SAMPLES, units=["g"])
    assert "pump: a in V instead of g" in refusal(replace(RECORDING, units=("V", "g")))


def test_conditions_are_one_value_or_one_for_each_sample() -> None:
    trace = np.linspace(0, 10, SAMPLES.shape[1])
    found = read_signal(SAMPLES, MANIFEST, SignalFormat(), conditions={"torque": trace})
    np.testing.assert_array_equal(found.conditions["torque"], trace.astype(np.float32))
    assert read_signal(SAMPLES, MANIFEST, SignalFormat(), conditions={"torque": 5}).conditions == {"torque": 5.0}
    with pytest.raises(DataError, match=r"shape \(3,\); expected one value, or one for each of 3000 samples"):
        read_signal(SAMPLES, MANIFEST, SignalFormat(), conditions={"torque": [1, 2, 3]})
    with pytest.raises(DataError, match="condition speed; the model knows torque"):
        read_signal(SAMPLES, MANIFEST, SignalFormat(), conditions={"speed": 5})


@given(
    st.one_of(numpy.scalar_dtypes(), numpy.unicode_string_dtypes()).flatmap(
        lambda dtype: numpy.arrays(dtype, numpy.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    )
)
def test_any_array_is_read_or_refused_with_a_reason(values: Any) -> None:
    with suppress(DataError):
        found = read_signal(values, MANIFEST, SignalFormat())
        assert found.samples.shape == (2, values.size // 2)
        return
    assert re.search("expected|pass", refusal(values))


@pytest.mark.parametrize("given_samples", [None, {"a": [1.0]}, object(), [[1.0], "b"], 5, b"x", [None]])
def test_what_is_no_array_is_refused(given_samples: Any) -> None:
    assert "expected" in refusal(given_samples)
