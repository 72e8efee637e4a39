from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.data.importing.patterns import NameParts, NamePattern
from cgsa.errors import ConfigError


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("{class}_{speed}rpm", "data/outer_ring_1200rpm.csv", NameParts("outer_ring", {"speed": 1200})),
        ("{class}/{speed}rpm/*.csv", "x/healthy/800rpm/a.csv", NameParts("healthy", {"speed": 800})),
        ("{class}/{speed}rpm", "x/healthy/800rpm.csv", NameParts("healthy", {"speed": 800})),
        ("{class}_{load}_{run}", "ok_0,7Nm_3.csv", NameParts("ok", {"load": 0.7}, run="3")),
        ("{class}_{torque}Nm", "ok_0.7Nm", NameParts("ok", {"torque": 0.7})),
        ("{unit}-{class}-{temp}degC", "K1-ok--3degC.wav", NameParts("ok", {"temp": -3}, unit="K1")),
        ("{split}/{class}", "test/worn.csv", NameParts("worn", {}, split="test")),
        ("vib_{class}_*", "vib_ok_2024.csv", NameParts("ok", {})),
    ],
)
def test_what_a_name_says(pattern: str, path: str, expected: NameParts) -> None:
    assert NamePattern(pattern).match(PurePosixPath(path)) == expected


@pytest.mark.parametrize("path", ["outer_ring.csv", "outer_rpm.csv", "outer_1200rpm_2.csv", "1200rpm.csv"])
def test_another_name_says_nothing(path: str) -> None:
    assert NamePattern("{class}_{speed}rpm").match(PurePosixPath(path)) is None


@given(
    label=st.from_regex(r"[a-z][a-z_]{0,10}[a-z]", fullmatch=True),
    speed=st.floats(-1e6, 1e6).map(lambda value: round(value, 3)),
    run=st.integers(0, 99),
)
def test_a_name_made_from_a_pattern_fits_it(label: str, speed: float, run: int) -> None:
    path = PurePosixPath(f"{label}_{speed:.3f}rpm_{run}.csv")
    assert NamePattern("{class}_{speed}rpm_{run}").match(path) == NameParts(label, {"speed": speed}, run=str(run))


def test_letters_behind_a_number_are_its_unit() -> None:
    pattern = NamePattern("{class}_{speed}U/min_{torque}")
    path = PurePosixPath("ok_3_4Nm.csv")
    assert NamePattern("{class}_{speed}rpm").condition_units == {"speed": "rpm"}
    assert pattern.condition_units == {"speed": "", "torque": ""}
    assert NamePattern("{class}_{number}_{torque}").unit_of("torque", [path]) == "Nm"


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("{class}_{class}", "a placeholder stands twice"),
        ("{class", "expected placeholders such as {class}"),
        ("{class}_{my speed}", "with a word in each"),
    ],
)
def test_a_pattern_must_make_sense(pattern: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        NamePattern(pattern)
    assert problem in str(error.value)
