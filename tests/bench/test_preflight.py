from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from cgsa.bench.plan import Plan
from cgsa.bench.preflight import check_recordings
from cgsa.bench.workspace import PlanWorkspace
from tests.toy_files import RUNS, write_toy


@pytest.fixture
def workspace(tmp_path: Path) -> PlanWorkspace:
    folder = write_toy(tmp_path)
    return PlanWorkspace(Plan.load(folder / "plan.toml"), folder / "runs", folder / "data")


def missing_recordings(workspace: PlanWorkspace) -> list[str]:
    return list(check_recordings(workspace).problems)


def test_complete_recordings_have_no_problems(workspace: PlanWorkspace) -> None:
    assert missing_recordings(workspace) == []


def test_recordings_may_be_in_one_folder(workspace: PlanWorkspace) -> None:
    assert workspace.data is not None
    assert missing_recordings(replace(workspace, data=workspace.data / "toy")) == []


def test_everything_missing_is_reported_at_once(workspace: PlanWorkspace) -> None:
    assert workspace.data is not None
    for name in (f"wear_H_{RUNS['high']}", f"crack_H_{RUNS['low']}"):
        (workspace.data / "toy" / f"{name}.parquet").unlink()
    problems = "\n".join(missing_recordings(workspace))
    assert f"no {RUNS['high']} of wear, specimen 1" in problems
    assert f"no {RUNS['low']} of crack, specimen 1" in problems
    assert len(missing_recordings(workspace)) == 2


def test_an_empty_folder_is_reported(workspace: PlanWorkspace, tmp_path: Path) -> None:
    (problem,) = missing_recordings(replace(workspace, data=tmp_path / "nowhere"))
    assert "nowhere is not a folder; expected one with MCC5-THU files" in problem
    (tmp_path / "empty").mkdir()
    (problem,) = missing_recordings(replace(workspace, data=tmp_path / "empty"))
    assert "no run found" in problem


def test_a_stage_without_windows_is_reported(workspace: PlanWorkspace) -> None:
    long = replace(workspace, plan=replace(workspace.plan, settings={"toy": {"window": {"length": 3000}}}))
    assert any("C1 has 2000 samples; a window takes 3000" in problem for problem in missing_recordings(long))


def test_an_ensemble_chooses_windows_that_fit(workspace: PlanWorkspace) -> None:
    entries = tuple(replace(entry, objective="ensemble") for entry in workspace.plan.entries)
    plan = replace(workspace.plan, settings={"toy": {"window": {"length": 3000}}}, entries=entries)
    assert missing_recordings(replace(workspace, plan=plan)) == []


def test_a_level_that_is_never_reached_is_reported(workspace: PlanWorkspace) -> None:
    path = Path(workspace.plan.scenarios[0])
    path.write_text(path.read_text().replace("level = 15", "level = 55"))
    assert any("no interval at 55 Nm for C2" in problem for problem in missing_recordings(workspace))


def test_samples_in_training_and_stream_are_reported(workspace: PlanWorkspace) -> None:
    path = Path(workspace.plan.scenarios[0])
    text = path.read_text()
    again = text.replace(f'run = "{RUNS["high"]}"\nlevel = 20', f'run = "{RUNS["low"]}"\nlevel = 10')
    assert again != text
    path.write_text(again)
    [problem] = missing_recordings(workspace)
    assert problem.startswith("toy/1/health/low: samples ")
    assert "are in both training data and stream; separate the offline segments" in problem


def test_a_set_with_unequal_runs_needs_one_recording_of_every_class(workspace: PlanWorkspace) -> None:
    assert workspace.data is not None
    files = [
        (state, number, at)
        for state, number, at in product(("health", "wear", "crack"), (1, 2), RUNS)
        if number == 1 or (state, at) == ("health", "low")
    ]
    folder = write_repetitions(workspace.data / "toy_set", files)
    path = Path(workspace.plan.scenarios[0])
    scenario = path.read_text().replace("ramp = [0, 10]", "level = 10")
    for at, run in RUNS.items():
        scenario = scenario.replace(run, at)
    path.write_text(scenario.replace("level = 15", "level = 20"))
    complete = replace(workspace, data=folder)
    assert missing_recordings(complete) == []
    assert check_recordings(complete).notes[1:] == tuple(
        f"toy: low of {state} exists for specimens 1 only; training uses 1, 2" for state in ("wear", "crack")
    )
    write_repetitions(folder, [file for file in files if file != ("wear", 1, "low")])
    assert missing_recordings(complete) == [f"{folder}: no run 'low' of wear; it has high"]


def write_repetitions(folder: Path, files: Sequence[tuple[str, int, str]]) -> Path:
    """Write a set of steady-state recordings of class, repetition and run, three seconds each."""
    folder.mkdir(exist_ok=True)
    entries = [
        {
            "file": f"{state}_{number}__{at}.npz",
            "class": state,
            "run": number,
            "condition": {"torque": 10 if at == "low" else 20},
        }
        for state, number, at in files
    ]
    (folder / "meta.json").write_text(json.dumps({"fs": 1000, "channels": ["a", "b"], "files": entries}))
    for entry in entries:
        np.savez(folder / str(entry["file"]), x=np.ones((3000, 2), dtype=np.float32))
    return folder
