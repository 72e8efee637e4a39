from __future__ import annotations

import json
from pathlib import Path

import pytest

from cgsa.bench import executors
from cgsa.bench.rotation import run
from cgsa.errors import ConfigError
from tests.bench.rotation.made_sets import InlineExecutor, write_profile, write_set
from tests.cli.running import run_cgsa


def test_a_rotation_of_one_set_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "ProcessExecutor", lambda *_, **__: InlineExecutor())
    write_set(tmp_path / "data" / "pump")
    profile = write_profile(tmp_path)
    arguments = ["bench", "rotate", tmp_path / "runs", "--data", tmp_path / "data", "--only", "pump", "--device", "cpu"]
    arguments += ["--profile", profile, "--trials", "1", "--no-peers", "--variant", "trained"]
    shown = run_cgsa(*arguments)
    assert "models, streams start trained" in shown
    results = tmp_path / "runs" / "rotate"
    assert {path.name for path in results.iterdir()} == {"figures", "records", "rotation.json", "rows", "tables"}
    assert (results / "rows" / "pump.csv").exists()
    assert (results / "tables" / "pump-trained.md").exists()

    def fail(*_: object) -> str:
        pytest.fail("nothing is left to run")

    monkeypatch.setattr(run, "rotation_job", fail)
    rows = json.loads(run_cgsa(*arguments, "--json"))
    assert {row["entry"] for row in rows} == {"tiny", "tiny, frozen"}
    assert "models, streams start trained" in run_cgsa(*arguments, "--collect")


def test_an_unknown_set_lists_the_known_ones(tmp_path: Path) -> None:
    write_set(tmp_path / "pump")
    with pytest.raises(ConfigError, match="no set 'fan'; known: pump, gearbox, motor"):
        run_cgsa("bench", "rotate", tmp_path / "runs", "--data", tmp_path, "--only", "fan", "--no-peers")
