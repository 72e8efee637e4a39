from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.bench.plan import Plan
from cgsa.bench.preflight import missing_recordings
from cgsa.bench.workspace import PlanWorkspace
from tests.toy_files import RUNS, write_toy


@pytest.fixture
def workspace(tmp_path: Path) -> PlanWorkspace:
    folder = write_toy(tmp_path)
    return PlanWorkspace(Plan.load(folder / "plan.toml"), folder / "runs", folder / "data")


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
    assert "nowhere is no folder; expected one with MCC5-THU files" in problem
    (tmp_path / "empty").mkdir()
    (problem,) = missing_recordings(replace(workspace, data=tmp_path / "empty"))
    assert "no run found" in problem


def test_a_stage_without_windows_is_reported(workspace: PlanWorkspace) -> None:
    long = replace(workspace, plan=replace(workspace.plan, settings={"toy": {"window": {"length": 3000}}}))
    assert any("C1 has 2000 samples; a window takes 3000" in problem for problem in missing_recordings(long))


def test_a_level_that_is_never_reached_is_reported(workspace: PlanWorkspace) -> None:
    path = Path(workspace.plan.scenarios[0])
    path.write_text(path.read_text().replace("level = 15", "level = 55"))
    assert any("no stretch at 55 Nm for C2" in problem for problem in missing_recordings(workspace))
