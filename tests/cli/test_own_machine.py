"""The hour of a new user: a folder of CSV files becomes a data set, a model, figures and verdicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cgsa.cli.train import training_material
from cgsa.errors import ConfigError
from cgsa.nn.bundle import ModelBundle
from tests.cli.running import run_cgsa
from tests.data.made_machine import write_csv_files, write_machine

CPU = ["--device", "cpu"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files, the data set made from them, and a model of it."""
    folder = tmp_path_factory.mktemp("hour")
    write_csv_files(folder / "data", speeds=(600, 900))
    write_csv_files(folder / "new", speeds=(750,))
    run_cgsa("import", folder / "data", folder / "machine", "--names", "{class}_{speed}rpm_*")
    run_cgsa("train", folder / "machine", folder / "model", "--set", "ensemble.seconds=0.5", *CPU)
    return folder


def test_train_takes_two_folders(place: Path) -> None:
    model = ModelBundle.load(place / "model")
    assert model.manifest.classes == ("healthy", "worn")
    assert model.manifest.objective == "ensemble"
    assert {source for source, _, _ in model.trained_on()} == {str(path) for path in (place / "data").iterdir()}


def test_evaluate_tells_new_files_from_those_of_the_training(place: Path) -> None:
    words = ["evaluate", place / "model", place / "new", "--names", "{class}_{speed}rpm_*", *CPU]
    values = json.loads(run_cgsa(*words, "--json"))
    new = values["groups"]["not_trained_on"]
    assert values["data"] == str(place / "new")
    assert (new["recordings"], new["alarms"], new["accuracy"]) == (2, 1, 1.0)
    page = place / "page.html"
    text = " ".join(run_cgsa("evaluate", place / "model", place / "machine", "--html", page, *CPU).split())
    assert "The model was trained on all of these recordings" in text
    assert "speed 900 rpm" in text
    assert "<svg" in page.read_text()


def test_watch_reads_the_same_files_and_is_also_called_stream(place: Path) -> None:
    files = [place / "new" / f"{state}_750rpm_1.csv" for state in ("healthy", "worn")]
    text = run_cgsa("watch", place / "model", *files, "--json", *CPU)
    events = [json.loads(line) for line in text.splitlines()]
    assert (events[0]["state"], events[0]["alarm"], events[-1]["alarm"]) == ("healthy", None, "worn")
    assert run_cgsa("stream", place / "model", *files, "--json", *CPU) == text


def test_watch_takes_a_data_set(place: Path) -> None:
    text = run_cgsa("watch", place / "model", place / "machine", "--json", *CPU)
    sources = {json.loads(line)["source"] for line in text.splitlines()}
    assert len(sources) == 4


def test_healthy_recordings_alone_train_a_model_of_the_healthy_machine(tmp_path: Path) -> None:
    write_machine(tmp_path / "machine", states=["healthy"])
    run_cgsa("train", tmp_path / "machine", tmp_path / "model", "--set", "ensemble.seconds=0.5", *CPU)
    assert ModelBundle.load(tmp_path / "model").manifest.objective == "healthy_only"


def test_one_condition_is_trained_on(tmp_path: Path) -> None:
    write_machine(tmp_path / "machine", speeds=[600])
    run_cgsa("train", tmp_path / "machine", tmp_path / "model", "--set", "ensemble.seconds=0.5", *CPU)
    assert ModelBundle.load(tmp_path / "model").manifest.objective == "ensemble"


def test_a_folder_without_a_data_set_names_the_import(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with pytest.raises(ConfigError, match=r"a folder without machine\.toml; make a data set of it: cgsa import"):
        run_cgsa("train", tmp_path / "data", tmp_path / "model")
    with pytest.raises(ConfigError, match="no such folder; expected the data set of a machine, or a scenario"):
        run_cgsa("train", tmp_path / "nowhere", tmp_path / "model")


def test_a_folder_may_have_the_name_of_a_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gearbox").mkdir()
    monkeypatch.chdir(tmp_path)
    plan, _ = training_material("gearbox", None, 1)
    assert plan.machine == "gearbox"
