from __future__ import annotations

from pathlib import Path

import pytest

from cgsa.config import builtin_files
from cgsa.errors import ConfigError
from cgsa.explain.kinematics import Kinematics, kinematics_from, load_kinematics
from cgsa.rigs.gearbox_model import RATIO, TEETH
from cgsa.rigs.motor_model import BALL_DIAMETER, BALLS, PITCH_DIAMETER, MotorParameters

SHAFTS = [{"name": "in"}, {"name": "out"}]
GEARS = [{"name": "stage", "driver": "in", "driven": "out", "teeth": [20, 60]}]


def machine(**parts: object) -> Kinematics:
    found = kinematics_from({"kinematics": {"shafts": SHAFTS, "gears": GEARS, **parts}}, "machine.toml")
    assert found is not None
    return found


def test_speeds_follow_from_gears_in_both_directions() -> None:
    assert machine().ratios == pytest.approx({"in": 1.0, "out": 1 / 3})
    assert machine(shafts=SHAFTS[::-1]).ratios == pytest.approx({"out": 1.0, "in": 3.0})


def test_speeds_follow_from_belts_and_from_given_ratios() -> None:
    belt = {"name": "belt", "driver": "out", "driven": "fan", "diameters": [100, 50], "length": 900}
    ratios = machine(shafts=[*SHAFTS, {"name": "fan"}, {"name": "pump", "ratio": 0.25}], belts=[belt]).ratios
    assert ratios == pytest.approx({"in": 1.0, "out": 1 / 3, "fan": 2 / 3, "pump": 0.25})


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"shafts": []}, "no shaft"),
        ({"shafts": [*SHAFTS, {"name": "loose"}]}, "speed of shaft 'loose' is open"),
        ({"shafts": [{"name": "in"}]}, "no shaft 'out'; there are in"),
        ({"shafts": [{"name": "in"}, {"name": "in"}]}, "more than one part of this name"),
        ({"shafts": [{"name": "in", "ratio": -1.0}, {"name": "out"}]}, "expected a positive number"),
        ({"gears": [{**GEARS[0], "teeth": [1, 60]}]}, "expected 2 or more"),
        ({"bearings": [{"name": "b", "shaft": "in"}]}, "expected part, or balls"),
        ({"bearings": [{"name": "b", "shaft": "in", "part": "9999"}]}, "not in the table"),
        ({"motor": {"shaft": "in", "pole_pairs": 1}}, "one of supply, slip and current"),
        ({"motor": {"shaft": "in", "pole_pairs": 1, "slip": 1.5}}, "slip from 0"),
        (
            {"belts": [{"name": "b", "driver": "in", "driven": "out", "diameters": [9, 9], "length": 1}]},
            "reaches around",
        ),
        ({"shaft": []}, "no such setting; did you mean 'shafts'"),
    ],
)
def test_mistakes_are_named_with_their_place(parts: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        machine(**parts)
    assert str(error.value).startswith("machine.toml: kinematics: ")


def test_a_file_without_the_section_has_no_kinematics(tmp_path: Path) -> None:
    assert kinematics_from({"classes": ["a"]}, "machine.toml") is None
    file = tmp_path / "machine.toml"
    file.write_text('name = "x"\n')
    with pytest.raises(ConfigError, match=r"no section \[kinematics\]"):
        load_kinematics(file)
    with pytest.raises(ConfigError, match="expected a table"):
        kinematics_from({"kinematics": 3}, "machine.toml")


def test_the_machines_that_come_with_cgsa_are_those_of_the_rigs() -> None:
    assert list(builtin_files("explain/machines")) == ["gearbox", "kat_units", "motor"]
    gearbox = load_kinematics("gearbox")
    assert tuple(teeth for pair in gearbox.gears for teeth in pair.teeth) == TEETH
    assert gearbox.ratios["output"] == pytest.approx(1 / RATIO)
    motor = load_kinematics("motor")
    bearing = motor.bearings[0].geometry
    assert bearing.balls == BALLS
    assert (bearing.ball_diameter, bearing.pitch_diameter) == pytest.approx((1e3 * BALL_DIAMETER, 1e3 * PITCH_DIAMETER))
    assert motor.motor is not None
    assert motor.motor.bars == MotorParameters().bars
