from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.bench.executors import ProcessExecutor, RayExecutor
from cgsa.bench.plan import Plan, PlanEntry, chooser, trainings_of
from cgsa.bench.records import WHOLE_STREAM, RunRecord
from cgsa.bench.run import PlanProgress, collect, do_meeting, do_trainings, meet_once, run
from cgsa.bench.site import Site
from cgsa.bench.summary import summarise
from cgsa.errors import ConfigError
from tests.toy_files import write_toy

MEASURED = ("setup_seconds", "seconds", "windows_per_second")
"""Columns that no two runs share."""

Whole = tuple[Site, list[RunRecord]]
Row = Mapping[str, object]


def rows_of(records: Iterable[RunRecord]) -> list[Row]:
    return [row for record in records for row in record.rows]


def bits(rows: Iterable[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name not in MEASURED} for row in rows]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def whole(toy: Path) -> Whole:
    """A plan that was carried out without a stop."""
    site = Site(Plan.load(toy / "plan.toml"), toy / "whole", toy / "data")
    return site, run(site)


def test_one_tidy_row_a_stage(whole: Whole) -> None:
    site, records = whole
    rows = rows_of(records)
    assert len(rows) == 2 * 2 * 2 * 3  # trials, faults, entries, stages and the whole stream
    for row in rows:
        assert row["stage"] in {"C1", "C2", WHOLE_STREAM}
        assert 0 <= float(str(row["accuracy"])) <= 1
        assert {"seed", "settings", "batch_size", "torch", "cgsa", "threads", "device", "tf32"} <= row.keys()
    with (site.own / "rows.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(rows)
    assert not any((site.folder / "training").iterdir())


def test_records_hold_what_figures_need(whole: Whole) -> None:
    _, records = whole
    for record in records:
        row = record.whole
        assert sum(record.details.batches.windows) == row["windows"]
        assert len(record.details.batches.right) == row["batches"]
        assert (record.details.intervals is not None) == (row["method"] == "cgsa")


def test_what_a_method_does_before_the_stream_is_no_cost_of_its_batches(toy: Path) -> None:
    """Tri-Training trains three models first; a batch still costs nine forwards, and a few for one retraining."""
    plan = Plan.load(toy / "plan.toml")
    frozen = PlanEntry("frozen", "plain", "source")
    three = PlanEntry("three", "plain", "tri_training", {"bootstrap_steps": 50})
    site = Site(replace(plan, entries=(frozen, three), trials=1), toy / "setup", toy / "data")
    rows = [record.whole for record in run(site)]
    size = float(str(rows[0]["forward_volume"]))
    for row in rows:
        if row["entry"] == "three":
            batches = float(str(row["batches"]))
            assert 9 * size <= float(str(row["forward_volume"])) <= (9 + 15 / batches) * size
            assert float(str(row["backward_volume"])) <= 3 * size / batches


def test_volumes_are_in_the_rows(whole: Whole) -> None:
    volumes = {record.entry: record.whole["forward_volume"] for record in whole[1]}
    assert float(str(volumes["CGSA"])) > 2 * float(str(volumes["Baseline"]))


def test_any_row_done_again_alone_has_the_same_bits(whole: Whole) -> None:
    site, records = whole
    again = meet_once(site, site.plan.meetings()[-1])
    assert bits(again.rows) == bits(records[-1].rows)
    assert again.details == records[-1].details


def test_a_finished_plan_is_not_done_again(whole: Whole) -> None:
    site, records = whole
    heard: list[PlanProgress] = []
    assert run(site, hear=heard.append) == records
    assert heard == [PlanProgress(4, 4, 8, 8)]


def test_progress_is_told(toy: Path, whole: Whole) -> None:
    heard: list[PlanProgress] = []
    site = replace(whole[0], folder=toy / "heard", plan=replace(whole[0].plan, trials=1))
    run(site, hear=heard.append)
    assert [now.met for now in heard] == sorted(now.met for now in heard)
    assert heard[0] == PlanProgress(0, 2, 0, 4)
    assert (heard[-1].trained, heard[-1].met) == (2, 4)


def test_a_part_can_be_done_first_and_needs_no_model_of_the_rest(toy: Path, whole: Whole) -> None:
    site = replace(whole[0], folder=toy / "part")
    first = run(site, only=chooser(site.plan, ["toy/plain"]))
    assert {record.entry for record in first} == {"Baseline"}
    assert {path.name.split("-")[1] for path in (site.folder / "models").iterdir()} == {"plain"}
    assert bits(rows_of(run(site))) == bits(rows_of(whole[1]))


def test_models_trained_together_give_the_same_rows(toy: Path, whole: Whole) -> None:
    site = replace(whole[0], folder=toy / "together", together=2)
    assert bits(rows_of(run(site, engine=ProcessExecutor(2)))) == bits(rows_of(whole[1]))


def test_a_ray_cluster_gives_the_same_rows(toy: Path, whole: Whole) -> None:
    site = replace(whole[0], folder=toy / "ray")
    assert bits(rows_of(run(site, engine=RayExecutor(workers=2)))) == bits(rows_of(whole[1]))


def test_plans_in_one_folder_share_models(toy: Path, whole: Whole) -> None:
    site = whole[0]
    heard: list[PlanProgress] = []
    entry = PlanEntry("CF", "cal", "cgsa", {"tau": 0.5, "min_confidence": 0.5, "by_residual": False})
    other = replace(site, plan=replace(site.plan, name="other", entries=(site.plan.entries[1], entry)))
    records = run(other, hear=heard.append)
    assert (heard[0].trained, heard[0].met) == (2, 0)
    mine = {(record.fault, record.trial): record for record in records if record.entry == "CGSA"}
    for record in whole[1]:
        if record.entry == "CGSA":
            twin = mine[record.fault, record.trial]
            assert twin.details == record.details
            assert twin.whole["accuracy"] == record.whole["accuracy"]


def test_entries_with_profiles_of_their_own_have_models_of_their_own(toy: Path, whole: Whole) -> None:
    site = whole[0]
    (toy / "small.toml").write_text((toy / "profile.toml").read_text().replace("hidden = [24, 12, 8]", "hidden = [8]"))
    small = PlanEntry("Small", "plain", "source", profile=str(toy / "small.toml"))
    plan = replace(site.plan, name="two profiles", trials=1, entries=(site.plan.entries[0], small))
    records = run(replace(site, plan=plan))
    volumes = {record.entry: float(str(record.whole["forward_volume"])) for record in records}
    assert volumes["Small"] < volumes["Baseline"]
    assert (site.folder / "models" / "toy-plain-small-0").is_dir()
    first = {record.fault: record for record in records if record.entry == "Baseline"}
    for record in whole[1]:
        if record.entry == "Baseline" and record.trial == 0:
            assert first[record.fault].details == record.details


def test_trials_may_grow_and_nothing_else(whole: Whole) -> None:
    site, _ = whole
    for changed in (replace(site, threads=2), replace(site, plan=replace(site.plan, seed=11))):
        with pytest.raises(ConfigError, match="holds a run with another"):
            run(changed)
    fewer = replace(site, plan=replace(site.plan, trials=1))
    assert len(run(fewer)) == 4
    run(site)


def test_totals_are_averaged_as_the_paper_does(whole: Whole) -> None:
    rows = rows_of(whole[1])
    (lines,) = summarise(rows).values()
    assert [line.entry for line in lines] == ["Baseline", "CGSA"]
    mine = [row for row in rows if row["entry"] == "CGSA" and row["stage"] == WHOLE_STREAM]
    assert lines[1].mean == pytest.approx(sum(float(str(row["accuracy"])) for row in mine) / len(mine))


def test_a_plan_killed_again_and_again_ends_in_the_same_rows(toy: Path, whole: Whole) -> None:
    site = replace(whole[0], folder=toy / "killed")
    command = [sys.executable, "-m", "cgsa", "bench", str(toy / "plan.toml"), str(site.folder)]
    command += ["--data", str(toy / "data"), "--device", "cpu", "--workers", "1", "--json"]
    pauses = random.Random(1)  # noqa: S311 - no secret
    for _ in range(4):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(pauses.uniform(2, 9))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    finished = subprocess.run(command, check=True, capture_output=True, text=True)
    assert bits(json.loads(finished.stdout)) == bits(rows_of(whole[1]))


def test_a_failing_job_is_told_and_loses_nothing(toy: Path) -> None:
    plan = Plan.load(toy / "plan.toml")
    broken = replace(plan, entries=(plan.entries[0], replace(plan.entries[1], settings={"tua": 1})), trials=1)
    site = Site(broken, toy / "broken", toy / "data")
    with pytest.raises(ConfigError, match="tua: no such setting; did you mean 'tau'"):
        run(site)
    assert all(record.entry == "Baseline" for record in collect(site))
    for training in trainings_of(broken.meetings()):
        assert (site.model(training) / "manifest.json").exists()


def test_jobs_can_be_done_one_by_one_in_any_order(toy: Path, whole: Whole) -> None:
    site = replace(whole[0], folder=toy / "alone")
    job = site.plan.meetings()[-1]
    do_trainings(site, [job.training])
    do_meeting(site, job)
    assert bits(rows_of(collect(site))) == bits(whole[1][-1].rows)
