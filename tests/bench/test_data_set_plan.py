from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cgsa.bench.data_set_plan import plan_on_data_set, streamed_scenario
from cgsa.bench.plan import Plan
from cgsa.bench.preflight import check_recordings
from cgsa.bench.workspace import PlanWorkspace
from cgsa.cli import app
from cgsa.data.dataset import DataSet
from cgsa.data.scenario import Scenario, check_no_leak
from cgsa.errors import ConfigError, DataError
from tests.data.made_machine import write_machine
from tests.toy_files import PROFILE

PLAN = """
name = "mine"
scenarios = ["pump"]
profile = "{folder}/profile.toml"
trials = 1
settings.pump.window.step = 8

[[entries]]
name = "Baseline"
objective = "plain"
method = "source"
"""


@pytest.fixture
def machine(tmp_path: Path) -> DataSet:
    return write_machine(tmp_path / "machine")


def write_plan(folder: Path) -> Plan:
    (folder / "profile.toml").write_text(PROFILE)
    (folder / "plan.toml").write_text(PLAN.format(folder=folder))
    return Plan.load(folder / "plan.toml")


def with_tests(data_set: DataSet, *files: str) -> DataSet:
    chosen = [one for one in data_set.selected if any(file in one.entry.file for file in files)]
    return data_set.for_testing(chosen)


def stages_of(scenario: Scenario) -> list[tuple[tuple[str, ...], float]]:
    return [(stage.runs, stage.fault_from) for stage in scenario.online]


def test_a_plan_runs_on_a_data_set(machine: DataSet, tmp_path: Path) -> None:
    write_plan(tmp_path)
    words = ["bench", str(tmp_path / "plan.toml"), str(tmp_path / "runs"), "--data", str(machine.folder)]
    done = CliRunner().invoke(app, [*words, "--device", "cpu", "--workers", "1", "--rows-only"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    with (tmp_path / "runs" / "mine" / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["scenario"], row["fault"], row["stage"]) for row in rows[:2]] == [
        ("pump", "worn", "C1"),
        ("pump", "worn", "C2"),
    ]
    assert float(rows[0]["accuracy"]) > 0.5  # chance; the network is tiny


def test_the_last_condition_is_left_out_if_no_recording_is_for_tests(machine: DataSet) -> None:
    scenario, specimen = streamed_scenario(machine)
    assert [cut.name for cut in scenario.offline] == ["speed 600 rpm", "speed 900 rpm"]
    assert stages_of(scenario) == [(("speed 1200 rpm",), 1.0), (("speed 1200 rpm",), 0.0)]
    segments = scenario.stream_segments(machine, "worn", specimen=specimen)
    assert [segment.label for segment in segments] == [0, 1]
    trained = scenario.training_segments(machine)
    check_no_leak(*([one.recording.interval for one in part] for part in (trained, segments)))


def test_recordings_for_tests_are_streamed_healthy_ones_first(tmp_path: Path) -> None:
    machine = write_machine(tmp_path, runs=2)
    marked = with_tests(machine, "600rpm_2", "1200rpm_2")
    scenario, specimen = streamed_scenario(marked)
    assert specimen == 2
    assert [cut.runs for cut in scenario.offline] == [(f"speed {speed} rpm",) for speed in (600, 900, 1200)]
    low, high = ("speed 600 rpm",), ("speed 1200 rpm",)
    assert stages_of(scenario) == [(low, 1.0), (high, 1.0), (low, 0.0), (high, 0.0)]
    intervals = [one.recording.interval for one in scenario.stream_segments(marked, "worn", specimen=specimen)]
    check_no_leak([one.recording.interval for one in scenario.training_segments(marked)], intervals)


def test_one_condition_leaves_out_a_specimen(tmp_path: Path) -> None:
    scenario, specimen = streamed_scenario(write_machine(tmp_path, speeds=(900,), runs=3))
    assert specimen == 3
    assert stages_of(scenario) == [(("speed 900 rpm",), 1.0), (("speed 900 rpm",), 0.0)]


def test_what_cannot_be_streamed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"one operating condition and one specimen; .*split = \"test\""):
        streamed_scenario(write_machine(tmp_path / "one", speeds=(900,)))
    with pytest.raises(DataError, match=r"no specimen has test recordings of every class \(healthy, worn\)"):
        streamed_scenario(with_tests(write_machine(tmp_path / "healthy"), "healthy_600rpm"))


def test_the_plan_gets_the_scenario_of_the_data_set(machine: DataSet, tmp_path: Path) -> None:
    plan = plan_on_data_set(replace(write_plan(tmp_path), faults=("worn", "crack")), machine.folder, tmp_path)
    (path,) = plan.scenarios
    assert Scenario.load(path) == streamed_scenario(machine)[0]
    assert plan.profile_of(path).window.step == 8
    assert plan.faults == ("worn",)
    assert [run.key for run in plan.stream_runs()] == ["pump-worn-Baseline-0"]
    builtin = plan_on_data_set(Plan.load("core"), machine.folder, tmp_path)
    assert builtin.scenarios == plan.scenarios
    own = replace(plan, scenarios=("elsewhere.toml",), settings={})
    assert plan_on_data_set(own, machine.folder, tmp_path) is own


def test_recordings_that_are_too_short_are_reported_before_anything_runs(machine: DataSet, tmp_path: Path) -> None:
    plan = plan_on_data_set(Plan.load("recommended"), machine.folder, tmp_path)
    assert check_recordings(PlanWorkspace(plan, tmp_path, machine.folder)).problems == ()
    long = replace(Plan.load("core"), scenarios=("pump",), settings={"pump": {"window": {"length": 2048}}})
    short = plan_on_data_set(long, machine.folder, tmp_path)
    problems = check_recordings(PlanWorkspace(short, tmp_path, machine.folder)).problems
    assert any("1024 samples; a window takes 2048" in problem for problem in problems)


def test_a_folder_with_runs_on_another_scenario_is_refused(machine: DataSet, tmp_path: Path) -> None:
    plan = write_plan(tmp_path)
    PlanWorkspace(plan_on_data_set(plan, machine.folder, tmp_path), tmp_path, machine.folder).check_settings()
    with_tests(machine, "600rpm").save()
    changed = PlanWorkspace(plan_on_data_set(plan, machine.folder, tmp_path), tmp_path, machine.folder)
    with pytest.raises(ConfigError, match="another scenario pump; choose another folder"):
        changed.check_settings()
