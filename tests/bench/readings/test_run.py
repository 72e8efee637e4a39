from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cgsa import Profile
from cgsa.bench.readings.grid import METHODS_OF_A_READING
from cgsa.bench.readings.statements import STATEMENTS
from cgsa.cli import app
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.scenario import Scenario
from cgsa.rigs.simulation import scenario_jobs
from tests.machines import ToyLibrary
from tests.toy_files import write_toy

GRID = """
scenario = "{folder}/toy.toml"
profile = "{folder}/profile.toml"
first_specimen = 41
specimens = 2
trials = 2

[budget.train]
epochs = 2
step = 32
assemblies = 1

[bases.today]

[changes."weight 0.1"]
objective.cal.adversary_weight = 0.1

[changes."weight 1"]
objective.cal.adversary_weight = 1.0

[changes.views]
train.views = "every"

[[crossings]]
base = "today"
changes = ["views", "weight 0.1"]
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy machine, whose recordings are already where the rig would write them."""
    folder = write_toy(tmp_path_factory.mktemp("readings"))
    (folder / "grid.toml").write_text(GRID.format(folder=folder))
    jobs = scenario_jobs(Scenario.load(folder / "toy.toml"), folder / "runs" / "readings" / "data" / "toy", 2, first=41)
    for job in jobs:
        key = "low" if "10Nm" in job.run.name else "high"
        write_parquet(ToyLibrary().get(job.state, key, severity="H", specimen=job.specimen), job.path)
    return folder


def run(place: Path, *options: str) -> str:
    arguments = ["bench", "readings", str(place / "runs"), "--grid", str(place / "grid.toml"), "--device", "cpu"]
    result = CliRunner().invoke(app, [*arguments, "--workers", "1", *options])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def table(place: Path) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(run(place, "--json"))
    return found


def test_every_reading_has_a_row_with_counts_of_seeds(table: list[dict[str, str]]) -> None:
    assert [row["reading"] for row in table] == [
        "today",
        "today, weight 0.1",
        "today, views",
        "today, views, weight 0.1",
    ]
    for row in table:
        counts = [row[statement.name] for statement in STATEMENTS]
        assert all(text in {"0 of 2", "1 of 2", "2 of 2"} for text in counts)
        assert int(row["sum"]) == sum(int(text[0]) for text in counts)
        # The toy network is not the paper's, so none of them may become its profile.
        assert (row["parameters"], row["chosen"]) == ("other", "")


@pytest.mark.usefixtures("table")
def test_rows_table_and_figure_are_written(place: Path) -> None:
    folder = place / "runs" / "readings"
    with (folder / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * len(METHODS_OF_A_READING) * 2 * 2 * 3  # readings, methods, seeds, faults, stages and stream
    assert {row["watched"] for row in rows} == {"41"}
    with (folder / "statements.csv").open() as file:
        statements = list(csv.DictReader(file))
    assert len(statements) == 4 * 2 * len(STATEMENTS)
    for name in ("tables/readings.md", "figures/readings.svg", "figures/readings.png"):
        assert (folder / name).stat().st_size > 0
    assert "nothing is chosen yet" in (folder / "paper.toml").read_text()


@pytest.mark.usefixtures("table")
def test_a_finished_grid_is_not_run_again_and_more_seeds_may_follow(place: Path) -> None:
    folder = place / "runs" / "readings"
    models = {path: path.stat().st_mtime_ns for path in (folder / "models").iterdir()}
    assert len(models) == 2 * (4 + 2 + 2)  # seeds; CAL of every reading, the others with and without views
    assert "today, weight 0.1" in run(place)
    assert {path: path.stat().st_mtime_ns for path in (folder / "models").iterdir()} == models
    assert "today, weight 0.1" in run(place, "--collect")


def test_the_chosen_profile_can_be_loaded(
    place: Path, table: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cgsa.bench.readings.choose.fits_counts", lambda *_: True)
    rows = json.loads(run(place, "--collect", "--json"))
    (chosen,) = [row for row in rows if row["chosen"] == "yes"]
    assert int(chosen["sum"]) == max(int(row["sum"]) for row in table)
    text = (place / "runs" / "readings" / "paper.toml").read_text()
    assert chosen["reading"] in text
    profile = Profile.load(place / "runs" / "readings" / "paper.toml")
    assert (profile.train.epochs, profile.train.step, profile.train.assemblies) == (2, 32, 1)
    assert (profile.train.views == "every") == ("views" in chosen["reading"])
