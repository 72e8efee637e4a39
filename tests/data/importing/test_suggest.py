from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.data.importing.patterns import NamePattern
from cgsa.data.importing.suggest import suggest_pattern


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


part = st.from_regex(r"[A-Za-z]{1,5}[0-9]{0,3}[a-z%]{0,3}", fullmatch=True)


@given(st.lists(st.lists(part, min_size=1, max_size=4).map("_".join), min_size=1, max_size=5, unique=True))
def test_a_suggestion_fits_every_name(names: list[str]) -> None:
    paths = [PurePosixPath(f"{name}.csv") for name in names]
    found = suggest_pattern(paths)
    if found is not None:
        assert all(NamePattern(found.pattern).match(path) for path in paths), found
