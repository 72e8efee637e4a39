from __future__ import annotations

from math import gcd

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.config import bind
from cgsa.explain.kinematics import Kinematics, load_kinematics
from cgsa.explain.line_families import LineFamily, Speeds, line_families


def families(machine: Kinematics) -> dict[tuple[str, str], LineFamily]:
    return {(one.name, one.domain): one for one in line_families(machine)}


def gear_pair(first: int, second: int) -> Kinematics:
    gears = [{"name": "stage", "driver": "a", "driven": "b", "teeth": [first, second]}]
    return bind(Kinematics, {"shafts": [{"name": "a"}, {"name": "b"}], "gears": gears}, "test")


@given(st.floats(0.5, 100.0), st.floats(0.5, 400.0), st.floats(0.1, 10.0))
def test_all_lines_scale_with_the_speed(speed: float, supply: float, factor: float) -> None:
    for family in line_families(load_kinematics("motor")):
        for line in family.lines:
            scaled = line.frequency(Speeds(factor * speed, factor * supply))
            assert scaled == pytest.approx(factor * line.frequency(Speeds(speed, supply)), rel=1e-6, abs=1e-9)


@given(st.integers(5, 200), st.integers(5, 200))
def test_both_gears_have_the_same_mesh(first: int, second: int) -> None:
    found = families(gear_pair(first, second))
    pinion, gear = (found[f"mesh of stage with sidebands of its {name}", "vibration"] for name in ("pinion", "gear"))
    assert pinion.lines[0].shaft == pytest.approx(gear.lines[0].shaft) == pytest.approx(first)


@given(st.integers(5, 200), st.integers(5, 200))
def test_the_same_teeth_meet_at_the_hunting_frequency(first: int, second: int) -> None:
    found = families(gear_pair(first, second)).get(("hunting tooth of stage", "vibration"))
    slower = min(1.0, first / second)
    if found is None:
        # Every revolution of the slower gear, the same teeth meet.
        assert max(first, second) % min(first, second) == 0
    else:
        assert found.lines[0].shaft == pytest.approx(gcd(first, second) / second)
        assert found.lines[0].shaft < slower


def test_sidebands_are_at_multiples_of_the_modulating_speed() -> None:
    bearing = families(load_kinematics("kat_units"))
    inner = bearing["BPFI of test bearing", "envelope"]
    centre = next(line for line in inner.lines if line.name == "BPFI of test bearing")
    side = next(line for line in inner.lines if line.name == "BPFI of test bearing -1x shaft")
    assert centre.shaft - side.shaft == pytest.approx(1.0)
    assert side.weight < centre.weight


def test_pole_pass_sidebands_are_twice_the_slip_from_the_line() -> None:
    found = families(load_kinematics("motor"))["pole-pass sidebands", "current"]
    speeds = Speeds(shaft=49.0, supply=50.0)
    assert sorted(line.frequency(speeds) for line in found.lines) == pytest.approx([46.0, 48.0, 52.0, 54.0])


def test_every_machine_has_families_with_different_names() -> None:
    for name in ("gearbox", "motor", "kat_units"):
        found = line_families(load_kinematics(name))
        assert len({(one.name, one.domain) for one in found}) == len(found)
