from __future__ import annotations

import pytest

from cgsa.bench.rotation.points import (
    OperatingPoint,
    common_levels,
    point_distance,
    point_name,
    training_selection,
)
from cgsa.data.scenario import Condition

SPEED = Condition("speed_rpm", "rpm", 600, 1800, 1)
LOAD = Condition("radial_load", "level", 1, 3, 0.1)
SLOW, FAST = OperatingPoint((600.0, 1.0), ("a", "b"), (1,)), OperatingPoint((1800.0, 1.0), ("c",), (1,))


def test_a_point_is_named_by_its_levels() -> None:
    assert point_name({"radial_load": 1, "speed_rpm": 600}, [SPEED, LOAD]) == "speed 600 rpm, radial load 1"


def test_a_distance_is_relative_to_the_ranges() -> None:
    assert point_distance(SLOW, FAST, [SPEED, LOAD]) == 1
    assert point_distance(SLOW, OperatingPoint((1200.0, 3.0), ("d",), (1,)), [SPEED, LOAD]) == pytest.approx(1.25**0.5)


def test_points_share_the_levels_that_are_equal() -> None:
    assert common_levels([SLOW, FAST], [SPEED, LOAD]) == {"radial_load": 1}
    assert common_levels([SLOW], [SPEED, LOAD]) == {"speed_rpm": 600, "radial_load": 1}


def test_training_cuts_every_run_of_a_point() -> None:
    first, second = training_selection([SLOW, FAST], [SPEED, LOAD], (0.0, 0.6))
    assert (first.runs, first.part, first.level) == (("a", "b"), (0.0, 0.6), {"speed_rpm": 600, "radial_load": 1})
    assert second.name == "speed 1800 rpm, radial load 1"
