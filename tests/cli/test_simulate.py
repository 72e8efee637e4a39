"""``cgsa simulate`` on the actual rigs: reading its files restores the simulated recordings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cgsa.cli import app
from cgsa.data.readers import read_recording
from cgsa.data.recording import Recording
from cgsa.data.run import Run
from cgsa.data.scenario import Scenario, check_no_leak
from cgsa.rigs import RIGS
from cgsa.rigs.library import RigLibrary

RUNS = {"gearbox": "torque_circulation_1000rpm_10Nm", "motor": "torque_circulation_2000rpm_20Nm"}


def simulate(rig: str, folder: Path, *options: str) -> dict[str, object]:
    """Simulate the healthy machine and return the output of the command."""
    arguments = [
        "simulate",
        rig,
        str(folder),
        "--state",
        "health",
        "--run",
        RUNS[rig],
        "--specimens",
        "1",
        "--json",
        *options,
    ]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    printed: dict[str, object] = json.loads(result.stdout)
    return printed


def assert_same(one: Recording, other: Recording) -> None:
    assert one.channels == other.channels
    assert one.units == other.units
    assert one.sample_rate == other.sample_rate
    assert one.label == other.label
    np.testing.assert_array_equal(one.signal, other.signal)
    assert one.conditions.keys() == other.conditions.keys()
    for name, trace in one.conditions.items():
        np.testing.assert_array_equal(trace, other.conditions[name])


@pytest.mark.parametrize("rig", list(RUNS))
def test_files_restore_the_simulated_recording(rig: str, tmp_path: Path) -> None:
    files = simulate(rig, tmp_path / "csv", "--format", "csv")["files"]
    assert isinstance(files, list)
    simulated = RIGS[rig]().simulate("health", Run.parse(RUNS[rig]), specimen=1, seed=0)
    assert_same(read_recording(files[0]), simulated)


def test_existing_files_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "specimen_1" / f"health_{RUNS['gearbox']}.parquet"
    file.parent.mkdir()
    file.write_text("here already")
    assert simulate("gearbox", tmp_path)["simulated"] == 0
    assert file.read_text() == "here already"


@pytest.mark.parametrize("rig", list(RUNS))
def test_the_segments_of_the_paper_can_be_cut_from_a_rig(rig: str) -> None:
    """The measured torque stays at every level of the scenario for ten seconds."""
    plan = Scenario.load(rig)
    library = RigLibrary(rig, specimens=1)
    healthy = {
        cut.name: plan.cut(library, plan.healthy, cut, run=cut.run, specimen=1) for cut in (*plan.offline, *plan.online)
    }
    for stage in plan.online:
        assert healthy[stage.name].seconds == 10.0
        assert isinstance(stage.level, float)
        assert abs(healthy[stage.name].conditions["torque"] - stage.level).mean() < 0.5
    assert healthy["T2"].seconds == 10.0
    assert healthy["T1"].seconds > 2
    assert healthy["T3"].seconds > 0.8
    trained = [healthy[cut.name].interval for cut in plan.offline]
    check_no_leak(trained, [healthy[stage.name].interval for stage in plan.online])
