from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cgsa.cli import app
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import Recording
from cgsa.edge import requirements
from cgsa.errors import ConfigError
from tests.cli.running import run_cgsa
from tests.edge.exported import differences
from tests.machines import RATE, ensemble_bundle, speed_bundle
from tests.starts import steady


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ensemble_bundle().save(tmp_path / "model")
    signal = steady("wear")
    write_parquet(Recording(signal, RATE, ("a", "b"), ("g", "g"), source="x"), tmp_path / "wear.parquet")
    np.save(tmp_path / "wear.npy", signal)
    return tmp_path


def test_the_runner_prints_the_events_of_cgsa_watch(folder: Path) -> None:
    words = ("--check", folder / "wear.parquet", "--set", "method.commissioning.seconds=0.5", "--json")
    report = json.loads(run_cgsa("export", folder / "model", "--onnx", folder / "edge", *words))
    assert report["parity"]["probability"] < 1e-9
    assert report["parity"]["recorded"]
    runner = [sys.executable, str(folder / "edge" / "run.py"), str(folder / "wear.npy"), "--json"]
    found = subprocess.run(runner, capture_output=True, text=True, check=True, cwd=folder).stdout.splitlines()
    watch = ("--set", "method.commissioning.seconds=0.5", "--device", "cpu", "--json")
    expected = run_cgsa("watch", folder / "model", folder / "wear.parquet", *watch).splitlines()
    pairs = [(json.loads(one), json.loads(other)) for one, other in zip(expected, found, strict=True)]
    assert {event["commissioning"]["state"] for _, event in pairs} == {"waiting", "question"}
    for one, other in pairs:
        del one["source"], other["source"]
        assert differences(one, other) == []


def test_the_differences_from_torch_are_printed(folder: Path) -> None:
    text = run_cgsa("export", folder / "model", "--onnx", folder / "edge", "--healthy-start")
    assert "ensemble model, method commissioning" in text
    assert "largest difference from torch" in text
    assert json.loads((folder / "edge" / "package.json").read_text())["healthy_start"] is True


def test_members_that_need_the_speed_are_named(tmp_path: Path) -> None:
    speed_bundle().save(tmp_path / "model")
    result = CliRunner().invoke(app, ["export", str(tmp_path / "model"), "--onnx", str(tmp_path / "edge")])
    assert "the members in orders are left out" in result.output


def test_missing_packages_are_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "find_spec", lambda name: None if name == "onnx" else find_spec(name))
    with pytest.raises(ConfigError, match=r"onnx not installed; an export needs them: pip install 'cgsa\[edge\]'"):
        requirements.require_onnx()
