"""A fault that develops in a simulated gearbox is named by the lines of its physics."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from benchmarks import changed_lines

from cgsa.data.scenario import Scenario
from cgsa.rigs import RIGS


def test_a_broken_tooth_is_named_by_mesh_frequencies_and_sidebands_of_its_shaft(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, seconds in {"TRAINING": 4.0, "START": 2.0, "HEALTHY": 4.0, "FAULT": 6.0}.items():
        monkeypatch.setattr(changed_lines, f"{name}_SECONDS", seconds)
    scenario = Scenario.load("gearbox")
    bundle = changed_lines.healthy_model(scenario, 1)
    lines, speed, _ = changed_lines.develop(scenario, bundle, "teeth_break", 1)
    rose = [line for line in lines if line.decibels > 0]
    assert len(rose) >= 2
    expected = changed_lines.gear_lines
    assert all(near for near, _ in changed_lines.matches(rose, expected(speed), bundle))
    # Most other speeds of the shaft would not explain these lines.
    assert changed_lines.other_shafts(rose, expected, speed, bundle) < 0.5


def test_a_fault_can_develop_in_the_healthy_assembly() -> None:
    rig = RIGS["gearbox"]()
    drive = partial(rig.drive, torque=10.0, speed=1000.0, seconds=0.5, specimen=2)
    healthy = drive("health").signal
    np.testing.assert_array_equal(drive("health", same_assembly=True).signal, healthy)
    same, other = (drive("teeth_crack", same_assembly=one).signal for one in (True, False))
    level = [np.log(one[2:].std(axis=1)) for one in (healthy, same, other)]
    assert np.abs(level[1] - level[0]).mean() < np.abs(level[2] - level[0]).mean()
