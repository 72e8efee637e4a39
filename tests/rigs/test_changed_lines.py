"""A fault that develops in a simulated gearbox is named by the lines of its physics."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from benchmarks import changed_lines

from cgsa.data.recording import Recording
from cgsa.data.scenario import Scenario
from cgsa.rigs import RIGS


def test_a_broken_tooth_is_named_by_mesh_frequencies_and_sidebands_of_its_shaft(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, seconds in {"TRAINING": 4.0, "START": 2.0, "HEALTHY": 4.0, "FAULT": 6.0}.items():
        monkeypatch.setattr(changed_lines, f"{name}_SECONDS", seconds)
    scenario = Scenario.load("gearbox")
    bundle = changed_lines.healthy_model(scenario, 1)
    run = changed_lines.develop(scenario, bundle, "teeth_break", 1)
    named = changed_lines.located("teeth_break", run)
    assert named
    assert changed_lines.matches("teeth_break", run, named) == len(named)
    # Most other speeds of the shaft would not explain these lines.
    assert changed_lines.other_speeds("teeth_break", run) < 0.1


def test_a_peak_is_located_between_the_lines_of_a_second() -> None:
    time = np.arange(8 * 1024) / 1024
    tone = np.sin(2 * np.pi * 100.37 * time) + 0.1
    recording = Recording(tone[None].astype(np.float32), 1024.0, ("a",), ("g",))
    assert changed_lines.locate(recording, "a", 100.0, 1.0) == pytest.approx(100.37, abs=0.02)


def test_a_fault_can_develop_in_the_healthy_assembly() -> None:
    rig = RIGS["gearbox"]()
    drive = partial(rig.drive, torque=10.0, speed=1000.0, seconds=0.5, specimen=2)
    healthy = drive("health").signal
    np.testing.assert_array_equal(drive("health", same_assembly=True).signal, healthy)
    same, other = (drive("teeth_crack", same_assembly=one).signal for one in (True, False))
    level = [np.log(one[2:].std(axis=1)) for one in (healthy, same, other)]
    assert np.abs(level[1] - level[0]).mean() < np.abs(level[2] - level[0]).mean()
