"""``cgsa stream --ledger`` and ``cgsa ledger``, on a toy machine with a model that was never trained."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import cgsa
import cgsa.cli
from cgsa.cli import app
from cgsa.errors import DataError
from cgsa.ledger.files import Ledger
from tests.cli.running import run_cgsa
from tests.machines import SPEC, bundle
from tests.toy_files import RUNS, write_toy


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, recordings and the ledger of a stream over two of them."""
    folder = write_toy(tmp_path_factory.mktemp("toy"))
    bundle().save(folder / "model")
    settings = ["--profile", folder / "profile.toml", "--set", "method.cgsa.tau=0.02", "--device", "cpu"]
    run_cgsa("stream", folder / "model", *recordings(folder), *settings, "--seed", 4, "--ledger", folder / "ledger")
    return folder


def recordings(folder: Path) -> list[Path]:
    return [folder / "data" / "toy" / f"{state}_{RUNS['high']}.parquet" for state in ("health", "wear_H")]


def test_a_stream_writes_one_row_per_window(place: Path) -> None:
    ledger = Ledger(place / "ledger")
    words = ["stream", place / "model", *recordings(place), "--profile", place / "profile.toml"]
    events = [json.loads(line) for line in run_cgsa(*words, "--set", "method.cgsa.tau=0.02", "--json").splitlines()]
    assert ledger.finished
    assert len(ledger) == sum(event["windows"] for event in events)
    assert ledger.count("accepted == true") == sum(event["accepted"] for event in events)
    for path in recordings(place):
        windows = sum(event["windows"] for event in events if event["source"] == str(path))
        assert ledger.count(f"source == '{path}'") == windows


def test_a_ledger_records_its_origin(place: Path) -> None:
    about = Ledger(place / "ledger").about
    manifest = json.loads((place / "model" / "manifest.json").read_text())
    assert (about.method, about.settings["tau"], about.seed, about.batch_size) == ("cgsa", 0.02, 4, 64)
    assert (about.scenario, about.objective, about.sha256) == ("toy", "cal", manifest["sha256"])
    assert (about.cgsa, about.bundle) == (cgsa.__version__, str(place / "model"))
    assert about.seconds_per_window == SPEC.step / 1000


def test_the_summary_shows_shares_over_time(place: Path) -> None:
    text = run_cgsa("ledger", place / "ledger")
    assert f"{len(Ledger(place / 'ledger'))} of {len(Ledger(place / 'ledger'))} windows" in text
    assert "verdicts: " in text
    assert "queue warming up" in text
    assert "Why cgsa adapted, or did not" in text
    assert "…" not in text


def test_json_adds_up(place: Path) -> None:
    ledger = Ledger(place / "ledger")
    where = "reason == 'residual deviates' and window >= 1000"
    told = json.loads(run_cgsa("ledger", place / "ledger", "--json", "--where", where))
    assert told["windows"] == len(ledger)
    assert told["chosen"] == ledger.count(where) == sum(stretch["windows"] for stretch in told["over_time"])
    assert told["reasons"] == {"residual deviates": 1.0}
    assert sum(told["verdicts"].values()) == pytest.approx(1)
    assert told["over_time"][0] == {"from": 0.0, "to": told["over_time"][1]["from"], "windows": 0}
    assert told["over_time"][-1]["reasons"] == {"residual deviates": 1.0}
    assert told["about"]["method"] == "cgsa"
    assert told["finished"] is True


def test_rows_are_exported_and_drawn(place: Path, tmp_path: Path) -> None:
    files = ["--export", tmp_path / "rows.csv", "--figure", tmp_path / "figure.svg"]
    text = run_cgsa("ledger", place / "ledger", "--where", "accepted == true", *files)
    assert "rows.csv" in text.replace("\n", "")
    with (tmp_path / "rows.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == Ledger(place / "ledger").count("accepted == true")
    assert {row["reason"] for row in table} == {"learnt"}
    assert (tmp_path / "figure.svg").read_text().startswith("<svg")
    run_cgsa("ledger", place / "ledger", "--figure", tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_a_condition_without_matches_is_not_an_error(place: Path) -> None:
    assert run_cgsa("ledger", place / "ledger", "--where", "verdict == 'rust'").startswith("0 of ")
    told = json.loads(run_cgsa("ledger", place / "ledger", "--where", "verdict == 'rust'", "--json"))
    assert (told["chosen"], told["reasons"]) == (0, {})


def test_a_frozen_model_never_learns(place: Path, tmp_path: Path) -> None:
    run_cgsa("stream", place / "model", recordings(place)[0], "--method", "source", "--ledger", tmp_path / "ledger")
    told = json.loads(run_cgsa("ledger", tmp_path / "ledger", "--json", "--figure", tmp_path / "a.svg"))
    assert told["reasons"] == {"never learns": 1.0}
    assert Ledger(tmp_path / "ledger").count("accepted == false") == 0


def test_a_stream_that_fails_keeps_its_windows(place: Path, tmp_path: Path) -> None:
    words = ["stream", place / "model", recordings(place)[0], tmp_path / "none.csv", "--ledger", tmp_path / "ledger"]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert isinstance(result.exception, DataError)
    ledger = Ledger(tmp_path / "ledger")
    assert not ledger.finished
    assert len(ledger) > 1000
    result = CliRunner().invoke(app, ["ledger", str(tmp_path / "ledger")], catch_exceptions=False)
    assert "the stream was stopped" in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ledger", "{}/none"], "no ledger here (no ledger.json); cgsa watch --ledger"),
        (["ledger", "{}/ledger", "--where", "deviaton > 1"], "did you mean 'deviation'"),
        (["ledger", "{}/ledger", "--where", "deviation > 1 or 2"], "at 'or 2' expected 'and' or the end"),
        (["ledger", "{}/ledger", "--export", "{}/a.xlsx"], "exported as .csv or .parquet"),
        (["ledger", "{}/ledger", "--figure", "{}/a.gif"], "drawn as .svg or .png"),
        (["stream", "{}/model", "x.csv", "--ledger", "{}/ledger"], "holds a ledger already"),
        (["stream", "{}/model", "x.csv", "--ledger", "{}"], "is not empty"),
    ],
)
def test_mistakes_get_one_clear_line(
    words: list[str], message: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["cgsa", *(word.replace("{}", str(place)) for word in words)])
    with pytest.raises(SystemExit) as stopped:
        cgsa.cli.main()
    assert stopped.value.code == 1
    error = capsys.readouterr().err
    assert message in " ".join(error.split())
    assert "Traceback" not in error
