from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cgsa import workflow
from cgsa.bench.executors import J, JobExecutor, ProcessExecutor, RayExecutor
from cgsa.bench.jobs import run_and_record, stream_job, train_job
from cgsa.bench.plan import Plan, PlanEntry, part_filter, training_jobs
from cgsa.bench.records import WHOLE_STREAM, RunRecord
from cgsa.bench.run import PlanProgress, collect_records, run_plan
from cgsa.bench.totals import entry_totals
from cgsa.bench.workspace import PlanWorkspace
from cgsa.errors import ConfigError, TrainingDivergedError
from tests.toy_files import write_toy

MEASURED = ("setup_seconds", "seconds", "windows_per_second")
"""Columns that differ between repetitions."""

Finished = tuple[PlanWorkspace, list[RunRecord]]
Row = Mapping[str, object]


class InThisProcess(JobExecutor):
    """Runs jobs where a test has replaced parts of them."""

    def run_jobs(self, function: Callable[[J], str], jobs: Sequence[J], *, whole_device: bool) -> Iterator[str | None]:
        for job in jobs:
            yield function(job)


def rows_of(records: Iterable[RunRecord]) -> list[Row]:
    return [row for record in records for row in record.rows]


def bits(rows: Iterable[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name not in MEASURED} for row in rows]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def finished(toy: Path) -> Finished:
    """A plan that ran without interruption."""
    workspace = PlanWorkspace(Plan.load(toy / "plan.toml"), toy / "finished", toy / "data")
    return workspace, run_plan(workspace)


def test_one_tidy_row_per_stage(finished: Finished) -> None:
    workspace, records = finished
    rows = rows_of(records)
    assert len(rows) == 2 * 2 * 2 * 3  # trials, faults, entries, stages plus the whole stream
    for row in rows:
        assert row["stage"] in {"C1", "C2", WHOLE_STREAM}
        assert 0 <= float(str(row["accuracy"])) <= 1
        assert {"seed", "settings", "batch_size", "torch", "cgsa", "threads", "device", "tf32"} <= row.keys()
    with (workspace.results / "rows.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(rows)
    assert not any((workspace.folder / "training").iterdir())


def test_records_contain_the_data_of_figures(finished: Finished) -> None:
    _, records = finished
    for record in records:
        row = record.whole_stream
        assert sum(record.details.batches.windows) == row["windows"]
        assert len(record.details.batches.right) == row["batches"]
        assert (record.details.intervals is not None) == (row["method"] == "cgsa")


def test_work_before_the_stream_is_not_a_cost_of_batches(toy: Path) -> None:
    """Tri-Training trains three models first; a batch still costs nine forwards, and a few for one retraining."""
    plan = Plan.load(toy / "plan.toml")
    frozen = PlanEntry("frozen", "plain", "source")
    three = PlanEntry("three", "plain", "tri_training", {"bootstrap_steps": 50})
    workspace = PlanWorkspace(replace(plan, entries=(frozen, three), trials=1), toy / "setup", toy / "data")
    rows = [record.whole_stream for record in run_plan(workspace)]
    size = float(str(rows[0]["forward_volume"]))
    for row in rows:
        if row["entry"] == "three":
            batches = float(str(row["batches"]))
            assert 9 * size <= float(str(row["forward_volume"])) <= (9 + 15 / batches) * size
            assert float(str(row["backward_volume"])) <= 3 * size / batches


def test_volumes_are_in_the_rows(finished: Finished) -> None:
    volumes = {record.entry: record.whole_stream["forward_volume"] for record in finished[1]}
    assert float(str(volumes["CGSA"])) > 2 * float(str(volumes["Baseline"]))


def test_rows_say_how_much_a_method_changes(finished: Finished) -> None:
    shares = {record.entry: float(str(record.whole_stream["changed_share"])) for record in finished[1]}
    assert shares["Baseline"] == 0.0
    assert 0.0 <= shares["CGSA"] <= 1.0


def test_an_entry_may_run_its_streams_on_another_device(toy: Path, finished: Finished) -> None:
    entry = replace(finished[0].plan.entries[0], name="elsewhere", device="cpu")
    workspace = replace(finished[0], plan=replace(finished[0].plan, name="devices", entries=(entry,), trials=1))
    for record in run_plan(workspace):
        assert record.whole_stream["device"] == "cpu"
    assert Plan.load("efficiency").entries[-1].device == "cpu"


def test_a_training_that_diverges_ends_the_plan_or_is_left_out(
    toy: Path, finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverge(*given: object, **options: object) -> object:
        if options["objective"] == "cal":
            raise TrainingDivergedError("loss nan")
        return workflow.train(*given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("cgsa.bench.jobs.train", diverge)
    workspace = replace(finished[0], folder=toy / "diverged", plan=replace(finished[0].plan, trials=1))
    with pytest.raises(TrainingDivergedError, match="loss nan"):
        run_plan(workspace, executor=InThisProcess())
    left_out = replace(workspace, skip_diverged=True)
    for _ in range(2):
        assert {record.entry for record in run_plan(left_out, executor=InThisProcess())} == {"Baseline"}
    (note,) = (toy / "diverged" / "training").glob("*.diverged")
    assert note.read_text() == "loss nan\n"


def test_a_repeated_stream_run_has_the_same_bits(finished: Finished) -> None:
    workspace, records = finished
    again = run_and_record(workspace, workspace.plan.stream_runs()[-1])
    assert bits(again.rows) == bits(records[-1].rows)
    assert again.details == records[-1].details


def test_a_finished_plan_is_not_run_again(finished: Finished) -> None:
    workspace, records = finished
    progress: list[PlanProgress] = []
    assert run_plan(workspace, on_progress=progress.append) == records
    assert progress == [PlanProgress(4, 4, 8, 8)]


def test_progress_is_reported(toy: Path, finished: Finished) -> None:
    progress: list[PlanProgress] = []
    workspace = replace(finished[0], folder=toy / "progress", plan=replace(finished[0].plan, trials=1))
    run_plan(workspace, on_progress=progress.append)
    assert [now.finished_runs for now in progress] == sorted(now.finished_runs for now in progress)
    assert progress[0] == PlanProgress(0, 2, 0, 4)
    assert (progress[-1].trained, progress[-1].finished_runs) == (2, 4)


def test_a_part_can_run_first_and_needs_no_models_of_the_rest(toy: Path, finished: Finished) -> None:
    workspace = replace(finished[0], folder=toy / "part")
    first = run_plan(workspace, only=part_filter(workspace.plan, ["toy/plain"]))
    assert {record.entry for record in first} == {"Baseline"}
    assert {path.name.split("-")[1] for path in (workspace.folder / "models").iterdir()} == {"plain"}
    assert bits(rows_of(run_plan(workspace))) == bits(rows_of(finished[1]))


def test_models_trained_in_parallel_give_the_same_rows(toy: Path, finished: Finished) -> None:
    workspace = replace(finished[0], folder=toy / "together", trainings_at_once=2)
    assert bits(rows_of(run_plan(workspace, executor=ProcessExecutor(2)))) == bits(rows_of(finished[1]))


def test_a_ray_cluster_gives_the_same_rows(toy: Path, finished: Finished) -> None:
    workspace = replace(finished[0], folder=toy / "ray")
    assert bits(rows_of(run_plan(workspace, executor=RayExecutor(workers=2)))) == bits(rows_of(finished[1]))


def test_plans_in_one_folder_share_models(toy: Path, finished: Finished) -> None:
    workspace = finished[0]
    progress: list[PlanProgress] = []
    entry = PlanEntry("CF", "cal", "cgsa", {"tau": 0.5, "min_confidence": 0.5, "by_residual": False})
    other = replace(workspace, plan=replace(workspace.plan, name="other", entries=(workspace.plan.entries[1], entry)))
    records = run_plan(other, on_progress=progress.append)
    assert (progress[0].trained, progress[0].finished_runs) == (2, 0)
    mine = {(record.fault, record.trial): record for record in records if record.entry == "CGSA"}
    for record in finished[1]:
        if record.entry == "CGSA":
            twin = mine[record.fault, record.trial]
            assert twin.details == record.details
            assert twin.whole_stream["accuracy"] == record.whole_stream["accuracy"]


def test_entries_with_their_own_profile_have_their_own_models(toy: Path, finished: Finished) -> None:
    workspace = finished[0]
    (toy / "small.toml").write_text((toy / "profile.toml").read_text().replace("hidden = [24, 12, 8]", "hidden = [8]"))
    small = PlanEntry("Small", "plain", "source", profile=str(toy / "small.toml"))
    plan = replace(workspace.plan, name="two profiles", trials=1, entries=(workspace.plan.entries[0], small))
    records = run_plan(replace(workspace, plan=plan))
    volumes = {record.entry: float(str(record.whole_stream["forward_volume"])) for record in records}
    assert volumes["Small"] < volumes["Baseline"]
    assert (workspace.folder / "models" / "toy-plain-small-0").is_dir()
    first = {record.fault: record for record in records if record.entry == "Baseline"}
    for record in finished[1]:
        if record.entry == "Baseline" and record.trial == 0:
            assert first[record.fault].details == record.details


def test_only_trials_may_be_added(finished: Finished) -> None:
    workspace, _ = finished
    for changed in (replace(workspace, threads=2), replace(workspace, plan=replace(workspace.plan, seed=11))):
        with pytest.raises(ConfigError, match="contains a run with another"):
            run_plan(changed)
    fewer = replace(workspace, plan=replace(workspace.plan, trials=1))
    assert len(run_plan(fewer)) == 4
    run_plan(workspace)


def test_totals_are_averaged_as_the_paper_does(finished: Finished) -> None:
    rows = rows_of(finished[1])
    totals = entry_totals(rows, "toy")
    assert [total.entry for total in totals] == ["Baseline", "CGSA"]
    mine = [row for row in rows if row["entry"] == "CGSA" and row["stage"] == WHOLE_STREAM]
    assert totals[1].mean == pytest.approx(sum(float(str(row["accuracy"])) for row in mine) / len(mine))


def test_a_plan_killed_repeatedly_ends_with_the_same_rows(toy: Path, finished: Finished) -> None:
    workspace = replace(finished[0], folder=toy / "killed")
    command = [sys.executable, "-m", "cgsa", "bench", str(toy / "plan.toml"), str(workspace.folder)]
    command += ["--data", str(toy / "data"), "--device", "cpu", "--workers", "1", "--json"]
    pauses = random.Random(1)  # noqa: S311 - no secret
    for _ in range(4):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(pauses.uniform(2, 9))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert bits(json.loads(output)) == bits(rows_of(finished[1]))


def test_a_failing_job_raises_its_error_and_loses_no_results(toy: Path) -> None:
    plan = Plan.load(toy / "plan.toml")
    broken = replace(plan, entries=(plan.entries[0], replace(plan.entries[1], settings={"tua": 1})), trials=1)
    workspace = PlanWorkspace(broken, toy / "broken", toy / "data")
    with pytest.raises(ConfigError, match="tua: no such setting; did you mean 'tau'"):
        run_plan(workspace)
    assert all(record.entry == "Baseline" for record in collect_records(workspace))
    for training in training_jobs(broken.stream_runs()):
        assert (workspace.model_folder(training) / "manifest.json").exists()


def test_jobs_can_run_one_by_one_in_any_order(toy: Path, finished: Finished) -> None:
    workspace = replace(finished[0], folder=toy / "alone")
    job = workspace.plan.stream_runs()[-1]
    train_job(workspace, [job.training])
    stream_job(workspace, job)
    assert bits(rows_of(collect_records(workspace))) == bits(finished[1][-1].rows)
