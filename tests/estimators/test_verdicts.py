from __future__ import annotations

import json
import sys
from dataclasses import fields

import numpy as np
import pytest

from cgsa.errors import ConfigError, DataError
from cgsa.estimators.verdicts import WindowVerdicts
from tests.estimators.toy import machine
from tests.starts import FOOLING, steady


def damaged() -> WindowVerdicts:
    samples = steady("wear")
    samples[1, 200:210] = np.inf
    return machine().predict(samples)


def test_the_columns_are_plain_json_with_null_where_nothing_is_known() -> None:
    found = damaged()
    columns = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert {len(column) for column in columns.values()} == {len(found)}
    rejected = [place for place, quality in enumerate(columns["quality"]) if quality == "infinite"]
    assert rejected
    assert columns["probability_wear"][rejected[0]] is None
    assert columns["verdict"][rejected[0]] == "no data"


def test_a_data_frame_has_a_row_for_each_window() -> None:
    found = damaged()
    frame = found.to_pandas()
    assert len(frame) == len(found)
    np.testing.assert_array_equal(frame["probability_wear"], found.probabilities[:, 1])


def test_without_pandas_the_columns_are_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match=r"needs pandas, .* to_dict returns the same"):
        damaged().to_pandas()


def test_the_probability_is_that_of_the_likeliest_class() -> None:
    found = damaged()
    good = found.quality == "good"
    np.testing.assert_array_equal(found.probability[good], found.probabilities[good].max(axis=1))
    assert np.isnan(found.probability[~good]).all()


def test_parts_are_joined_in_order() -> None:
    found = damaged()
    joined = WindowVerdicts.concatenate([found, found])
    for one in fields(found):
        if one.name != "classes":
            np.testing.assert_array_equal(getattr(joined, one.name)[len(found) :], getattr(found, one.name))
    with pytest.raises(DataError, match="no verdicts to join"):
        WindowVerdicts.concatenate([])


def test_questions_about_the_sensor_are_asked_window_by_window() -> None:
    found = machine().predict(FOOLING["noise"][0])
    asked = set(found.sensor_question) - {None}
    assert asked
    assert all(isinstance(question, str) and question.endswith("?") for question in asked)
