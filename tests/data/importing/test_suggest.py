from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.data.importing.classes import ClassGlobs
from cgsa.data.importing.patterns import NamePattern
from cgsa.data.importing.suggest import suggest_pattern

POINTS = [(state, speed) for state in ("normal", "inner") for speed in (1000, 1500)] * 2
UNITS = ("K001", "K002", "KA04", "KA15", "KI04", "KI14")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["healthy_800rpm.csv", "worn_gear_900rpm.csv"], "{class}_{speed}rpm"),
        (["800rpm_healthy.csv", "900rpm_outer_race.csv"], "{speed}rpm_{class}"),
        (["vib_ok_R1_T2_run3.csv", "vib_bad_R2_T1_run2.csv"], "vib_{class}_R{r}_T{t}_run{run}"),
        (["healthy/800rpm/a.csv", "worn/900rpm/b.csv"], "{class}/{speed}rpm/*"),
        (["Normal 1200 RPM 2.wav", "Outer race 1300 RPM 1.wav"], "{class} {speed} RPM {run}"),
        (["unbalance_2w__20Hz_Y.npz", "healthy_bearing__25Hz_Z.npz"], "{class}__{frequency}Hz_*"),
        (["motor/ok_0,7Nm.csv", "motor/bad_1,5Nm.csv"], "{class}_{torque}Nm"),
        (["healthy_600rpm_1.csv", "healthy_900rpm_2.csv"], "{class}_{speed}rpm_{run}"),
        (["pump7_ok_load10.csv", "pump8_bad_load20.csv"], "pump{unit}_{class}_load{load}"),
        (["a.csv", "b.csv"], "{class}"),
        (["healthy.csv", "normal.csv"], "{class}"),
        (["x.csv"], None),
        ([], None),
    ],
)
def test_the_pattern_that_names_suggest(names: list[str], expected: str | None) -> None:
    found = suggest_pattern([PurePosixPath(name) for name in names])
    assert (found.pattern if found is not None else None) == expected


@pytest.mark.parametrize(
    ("names", "pattern", "values"),
    [
        (
            [f"{state}-{speed}-{n}.npy" for n, (state, speed) in enumerate(POINTS)],
            "{class}-{condition}-{run}",
            "1000, 1500",
        ),
        ([f"{state}/run_{speed}.csv" for state, speed in POINTS], "{class}/run_{condition}", "1000, 1500"),
        (
            [f"{code}_{load}.mat" for code in ("Normal", "B007", "OR007@6") for load in range(3)],
            "{class}_{condition}",
            "0, 1, 2",
        ),
    ],
)
def test_numbers_that_recur_are_conditions(names: list[str], pattern: str, values: str) -> None:
    found = suggest_pattern([PurePosixPath(name) for name in names])
    assert found is not None
    assert (found.pattern, found.option) == (pattern, f"--names '{pattern}'")
    assert found.notes[0].startswith(f"{{condition}} is {values}, which recur in several classes: likely an operating")


def test_numbers_that_count_are_repetitions() -> None:
    names = [f"{state}_{run}.csv" for state in ("ok", "bad") for run in (1, 2, 3)]
    found = suggest_pattern([PurePosixPath(name) for name in names])
    assert found is not None
    assert (found.pattern, found.notes) == ("{class}_{run}", ())


def test_units_that_code_the_class() -> None:
    names = [f"N{speed}_{unit}_{run}.mat" for speed in (9, 15) for unit in UNITS for run in (1, 2)]
    found = suggest_pattern([PurePosixPath(name) for name in names])
    assert found is not None
    assert (found.pattern, found.classes) == ("N{n}_{unit}_{run}", "K=*K[0-9]*,KA=*KA[0-9]*,KI=*KI[0-9]*")
    globs = ClassGlobs.parse(found.classes or "")
    assert [globs.classes_of(PurePosixPath(f"N9_{unit}_1.mat")) for unit in UNITS] == [
        [unit[:-2].rstrip("0")] for unit in UNITS
    ]


part = st.from_regex(r"[A-Za-z]{1,5}[0-9]{0,3}[a-z%]{0,3}", fullmatch=True)


@given(st.lists(st.lists(part, min_size=1, max_size=4).map("_".join), min_size=1, max_size=5, unique=True))
def test_a_suggestion_fits_every_name(names: list[str]) -> None:
    paths = [PurePosixPath(f"{name}.csv") for name in names]
    found = suggest_pattern(paths)
    if found is not None:
        assert all(NamePattern(found.pattern).match(path) for path in paths), found
