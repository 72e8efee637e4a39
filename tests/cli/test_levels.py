from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cgsa.cli import app
from cgsa.cli.levels import level_lines, level_settings, level_table
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import Recording
from cgsa.errors import ConfigError
from tests.cli.running import run_cgsa
from tests.live.stream import signal
from tests.machines import RATE, bundle


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model, and a recording that is four times as strong from its third to its fifth second."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    bundle().save(tmp_path / "model")
    samples = signal(8.0)
    samples[:, round(2 * RATE) : round(5 * RATE)] *= 4
    write_parquet(Recording(samples, RATE, ("a", "b"), ("g", "g"), source="x"), tmp_path / "toy.parquet")
    return tmp_path


def test_limits_are_printed_as_a_table_and_as_intervals(folder: Path) -> None:
    words = [
        "--method",
        "source",
        "--limit",
        "a velocity 40 60",
        "--limit",
        "b rms - 99",
        "--set",
        "levels.duration=0.5",
    ]
    found = run_cgsa("stream", folder / "model", folder / "toy.parquet", *words)
    assert "Levels with limits" in found
    (line,) = [line for line in found.splitlines() if line.startswith("level alarm")]
    assert "up to a velocity" in line
    assert line.endswith("mm/s, alarm limit 60 mm/s")
    begin, end = (float(word) for word in line.split(": ")[0].replace(" s", "").split(", ")[1].split(" to "))
    assert 1.9 < begin < 3.0
    assert 5.0 < end < 7.2
    assert "velocity up to 390.6 instead of 1000 Hz" in found


def test_events_have_levels_and_limits(folder: Path) -> None:
    words = ["--method", "source", "--limit", "iso20816-3 group 2 rigid", "--json"]
    lines = run_cgsa("stream", folder / "model", folder / "toy.parquet", *words).splitlines()
    levels = [json.loads(line)["levels"] for line in lines]
    assert [one["channel"] for one in levels[0]["channels"]] == ["a", "b"]
    assert [(one["channel"], one["warning"], one["alarm"]) for one in levels[0]["limits"]] == [
        ("a", 2.8, 4.5),
        ("b", 2.8, 4.5),
    ]
    values = np.array([one["channels"][0]["rms"] for one in levels])
    assert values.max() == pytest.approx(4 * np.median(values), rel=0.5)


def test_without_limits_nothing_is_printed(folder: Path) -> None:
    assert "evel" not in run_cgsa("stream", folder / "model", folder / "toy.parquet", "--method", "source")
    assert level_table([]) is None
    assert list(level_lines([])) == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--limit", "c rms 1 2"], "no channel 'c'; there are a, b"),
        (["--limit", "a rms"], "expected a channel, a quantity"),
        (["--set", "levels.durations=1"], "did you mean 'duration'?"),
        (["--set", "levels=3"], "expected one of its settings"),
    ],
)
def test_wrong_limits_are_explained(folder: Path, words: list[str], problem: str) -> None:
    result = CliRunner().invoke(app, ["stream", str(folder / "model"), str(folder / "toy.parquet"), *words])
    assert result.exit_code != 0
    assert problem in " ".join(result.output.split()) or problem in str(result.exception)


def test_limits_are_given_in_one_place() -> None:
    assert level_settings({"limits": "a rms 1 2"}, []).rules()[0].limits == (1, 2)
    with pytest.raises(ConfigError, match="expected one of them"):
        level_settings({"limits": "a rms 1 2"}, ["b rms 1 2"])
