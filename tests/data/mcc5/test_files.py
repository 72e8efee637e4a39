from __future__ import annotations

import pytest

from cgsa.data.mcc5.files import Mcc5FileName
from cgsa.data.run import Run
from cgsa.errors import DataError
from tests.data.mcc5.examples import MOTOR_NAME


@pytest.mark.parametrize(
    ("name", "state", "severity", "run"),
    [
        ("health_speed_circulation_20Nm-3000rpm.csv", "health", None, Run("speed", 20, 3000)),
        ("health_torque_circulation_1000rpm_10Nm.csv", "health", None, Run("torque", 10, 1000)),
        ("miss_teeth_torque_circulation_2000rpm_20Nm.csv", "miss_teeth", None, Run("torque", 20, 2000)),
        ("gear_wear_H_torque_circulation_1000rpm_10Nm.csv", "gear_wear", "H", Run("torque", 10, 1000)),
        ("gear_pitting_M_speed_circulation_20Nm-1000rpm.csv", "gear_pitting", "M", Run("speed", 20, 1000)),
        ("teeth_break_single_L_speed_circulation_10Nm_1000rpm.csv", "teeth_break", "L", Run("speed", 10, 1000)),
        (
            "teeth_break_and_bearing_inner_L_torque_circulation_3000rpm-20Nm.csv",
            "teeth_break_and_bearing_inner",
            "L",
            Run("torque", 20, 3000),
        ),
        ("bend_speed_circulation_40Nm_1000rpm.csv", "bend", None, Run("speed", 40, 1000)),
        ("winding_L_torque_circulation_40Nm_2000rpm_230412101530d.csv", "winding", "L", Run("torque", 40, 2000)),
        (MOTOR_NAME, "broken_bar_and_bearing_inner", "H", Run("torque", 20, 2000)),
        (
            "bearing_outer_H_and_inner_H_speed_circulation_20Nm_3000rpm_230412101530.csv",
            "bearing_outer_and_inner",
            "H",
            Run("speed", 20, 3000),
        ),
        ("bearing_outer_H_and_inner_L_speed_circulation_20Nm_3000rpm", "bearing_outer_H_and_inner_L", None, None),
    ],
)
def test_file_names(name: str, state: str, severity: str | None, run: Run | None) -> None:
    parsed = Mcc5FileName.parse(name)

    assert (parsed.state, parsed.severity) == (state, severity)
    assert run is None or parsed.run == run


@pytest.mark.parametrize(
    "name",
    ["notes.csv", "._health_speed_circulation_20Nm-3000rpm.csv", "health_20Nm_1000rpm.csv", "_torque_circulation_1Nm"],
)
def test_other_names_are_refused_with_an_example(name: str) -> None:
    with pytest.raises(DataError, match=r"not an MCC5-THU name; expected something like 'gear_wear_H_torque"):
        Mcc5FileName.parse(name)
