from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cgsa.cli import app
from cgsa.data.readers import read_recording
from cgsa.data.readers.parquet import write_parquet
from cgsa.errors import DataError, UnknownNameError
from tests.check.clean_set import clean_set, write_set
from tests.cli.running import run_cgsa
from tests.toy_files import RUNS, write_toy


@pytest.fixture
def spoilt(tmp_path: Path) -> Path:
    """A set in which one recording of wear is a copy of one of health."""
    folder = write_set(tmp_path, clean_set())
    (folder / "wear_run1__900rpm.npz").write_bytes((folder / "health_run1__900rpm.npz").read_bytes())
    return folder


def test_a_clean_set_passes(tmp_path: Path) -> None:
    assert "36 recordings; nothing found" in run_cgsa("check", write_set(tmp_path))


def test_what_stops_training_gives_exit_status_1(spoilt: Path) -> None:
    result = CliRunner().invoke(app, ["check", str(spoilt)], env={"COLUMNS": "200"})
    assert result.exit_code == 1
    assert "stops training: 1" in result.stdout
    assert "doubled" in result.stdout


def test_json_has_place_and_sentences(spoilt: Path) -> None:
    result = CliRunner().invoke(app, ["check", str(spoilt), "--json"])
    found = json.loads(result.stdout)
    assert found["counts"]["stops training"] == 1
    first = found["findings"][0]
    assert first["recordings"] == ["health_run1__900rpm.npz", "wear_run1__900rpm.npz"]
    assert {"found", "why", "fix", "place", "channel", "seconds"} <= first.keys()


def test_only_the_named_checks_run(spoilt: Path) -> None:
    assert "nothing found" in run_cgsa("check", spoilt, "--only", "clipping")
    with pytest.raises(UnknownNameError, match="did you mean 'clipping'"):
        CliRunner().invoke(app, ["check", str(spoilt), "--only", "cliping"], catch_exceptions=False)


def test_the_page_is_self_contained(spoilt: Path, tmp_path: Path) -> None:
    CliRunner().invoke(app, ["check", str(spoilt), "--html", str(tmp_path / "page.html")])
    page = (tmp_path / "page.html").read_text()
    assert "have the same samples" in page
    assert page.count("<figure") == 4
    assert not re.search(r'(src|href)="http', page)


def test_training_stops_at_a_worthless_set_and_goes_on_if_asked(tmp_path: Path) -> None:
    folder = write_toy(tmp_path)
    data = folder / "data" / "toy"
    health, wear = (next(iter(sorted(data.rglob(f"{state}_*{RUNS['low']}*")))) for state in ("health", "wear"))
    write_parquet(read_recording(health), wear)
    train = ["train", str(folder / "toy.toml"), str(tmp_path / "model"), "--data", str(data), "--json"]
    settings = ["--profile", str(folder / "profile.toml"), "--objective", "plain", "--set", "train.epochs=1"]
    with pytest.raises(DataError, match="the same samples") as error:
        CliRunner().invoke(app, [*train, *settings], catch_exceptions=False)
    assert "--despite-problems trains anyway" in str(error.value)
    run_cgsa(*train, *settings, "--despite-problems")
