from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cgsa.bench.plan import Plan
from cgsa.bench.records import WHOLE_STREAM, RunRecord
from cgsa.bench.search import write_search_scenarios
from cgsa.bench.stream_details import BatchSeries, StreamDetails
from cgsa.bench.tuning import restrict_to_scenarios, search_plan
from cgsa.bench.workspace import PlanWorkspace
from cgsa.cli import app
from cgsa.errors import ConfigError, DataError
from tests.toy_files import RUNS, write_toy


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy plan after one trial."""
    folder = write_toy(tmp_path_factory.mktemp("toy"))
    arguments = [*bench(folder), "--trials", "1", "--workers", "1", "--rows-only"]
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    return folder


def bench(folder: Path) -> list[str]:
    return ["bench", str(folder / "plan.toml"), str(folder / "runs"), "--data", str(folder / "data"), "--device", "cpu"]


def call(*arguments: str) -> str:
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False).output


def test_rows_can_be_written_first_and_the_rest_later(toy: Path) -> None:
    own = toy / "runs" / "toy plan"
    assert (own / "rows.csv").exists()
    assert not (own / "tables").exists()
    kept = toy / "elsewhere" / "toy plan"
    shutil.copytree(own, kept)
    shown = call("bench", str(toy / "plan.toml"), str(toy / "elsewhere"), "--collect")
    assert "totals, toy" in shown
    assert (kept / "report.html").exists()
    assert {path.suffix for path in (kept / "figures").iterdir()} == {".svg", ".png", ".md", ".tex", ".csv"}
    (kept / "tables" / "stale.md").write_text("")
    call("bench", str(toy / "plan.toml"), str(toy / "elsewhere"), "--collect")
    assert not (kept / "tables" / "stale.md").exists()


def test_collecting_nothing_is_an_error(toy: Path) -> None:
    with pytest.raises(ConfigError, match="no records yet; run the plan first"):
        call("bench", str(toy / "plan.toml"), str(toy / "empty"), "--collect")


def test_recordings_are_checked_before_anything_runs(tmp_path: Path) -> None:
    folder = write_toy(tmp_path)
    assert "complete for plan toy plan" in call(*bench(folder), "--check")
    for name in (f"wear_H_{RUNS['high']}", f"crack_H_{RUNS['low']}"):
        (folder / "data" / "toy" / f"{name}.parquet").unlink()
    for options in (["--check"], []):
        with pytest.raises(DataError, match=r"of wear, specimen 1.*\n.*of crack|of crack, specimen 1.*\n.*of wear"):
            call(*bench(folder), *options)
    assert not (folder / "runs").exists()


def test_a_missing_gpu_is_reported(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ConfigError, match="--device cuda: torch finds no GPU"):
        call("bench", "core", str(toy / "gpu"), "--device", "cuda")


def test_a_finished_search_writes_a_plan(tmp_path: Path) -> None:
    """All its stream runs are finished, so only the choice is left."""
    plan = restrict_to_scenarios(Plan.load("paper"), ["motor"])
    drawn = search_plan(plan, 3)
    (tmp_path / "paper-motor-tuning.toml").write_text(drawn.to_toml())
    workspace = PlanWorkspace(drawn, tmp_path)
    for run in drawn.stream_runs():
        entry = run.entry
        row = {"scenario": "motor", "fault": run.fault, "entry": entry.name, "trial": 10, "stage": WHOLE_STREAM}
        row |= {"accuracy": float(entry.name.endswith("#2")), "settings": json.dumps(dict(entry.settings))}
        RunRecord((row,), StreamDetails(BatchSeries((), (), (), ()), (), None)).save(workspace.record_path(run))
    shown = call("tune", "paper", str(tmp_path), "--scenario", "motor", "--device", "cpu")
    assert "paper-motor-tuned.toml" in shown.replace("\n", "")
    result = Plan.load(tmp_path / "paper-motor-tuned.toml")
    wanted = {entry.name: entry.settings for entry in drawn.entries}
    for entry in result.entries:
        assert entry.settings == wanted.get(f"{entry.name} #2", {})
    assert (result.name, result.scenarios, result.watched) == ("paper-motor-tuned", ("motor",), 1)


def test_a_search_on_real_recordings_reads_no_stream_of_the_plan(toy: Path) -> None:
    folder = toy / "search"
    drawn = 'name = "toy plan-tuning"\nscenarios = ["{0}"]\nprofile = "{1}"\nfirst_trial = 2\ntrials = 1\n'
    for name in ("CAL", "CGSA"):
        method = "cgsa" if name == "CGSA" else "source"
        drawn += f'[[entries]]\nname = "{name} #0"\nobjective = "cal"\nmethod = "{method}"\n'
    real = write_search_scenarios([str(toy / "toy.toml")], folder / "tuning")
    (folder / "toy plan-tuning.toml").write_text(drawn.format(*real.values(), toy / "profile.toml"))
    plan = (toy / "plan.toml").read_text().replace("Baseline", "CAL").replace("plain", "cal")
    (toy / "searched.toml").write_text(plan)
    options = ("--data", str(toy / "data"), "--device", "cpu", "--workers", "1")
    tuned = CliRunner().invoke(app, ["tune", str(toy / "searched.toml"), str(folder), *options, "--json"])
    found = json.loads(tuned.stdout)
    assert [one["entry"]["name"] for one in found] == ["CAL", "CGSA"]
    assert found[0]["changed"] == 0.0
    assert not found[0]["is_no_op"]
    assert found[1]["is_no_op"] == (found[1]["changed"] < 0.001)
    (record, *_) = (folder / "toy plan-tuning" / "records").iterdir()
    assert record.name.startswith("toy-search-")
