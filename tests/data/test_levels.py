from __future__ import annotations

from cgsa.data.levels import level_name, quantity_name, range_name, span_name, unit_of
from cgsa.data.scenario import Condition

SPEED = Condition("speed_rpm", "rpm", 600, 1800, 1)
LOAD = Condition("radial_load", "level", 1, 3, 0.1)
TORQUE = Condition("torque", "Nm", 0, 20, 0.5)


def test_a_name_has_the_quantity_and_its_unit_if_people_use_one() -> None:
    assert level_name(SPEED, 1200) == "speed 1200 rpm"
    assert level_name(LOAD, 2) == "radial load 2"
    assert level_name(TORQUE, 0.5) == "torque 0.5 Nm"
    assert quantity_name(Condition("rpm", "rpm", 0, 1, 1)) == "rpm"
    assert (unit_of("shaft_load_lb"), unit_of("load")) == ("lb", "")


def test_measured_values_are_one_level_unless_they_spread() -> None:
    assert span_name(TORQUE, 9.7, 10.32) == "torque 10 Nm"
    assert span_name(TORQUE, 0.02, 4.13) == "torque 0 to 4.1 Nm"
    # Brakes hold a high level less exactly than the tolerance.
    assert span_name(SPEED, 1190.0, 1212.0) == "speed 1201 rpm"
    assert range_name(LOAD, 1.0, 3.0) == "1 to 3"
