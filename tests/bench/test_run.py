from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.bench.plan import Entry, Plan
from cgsa.bench.run import WHOLE_STREAM, Site, collect, do_meeting, do_training, meet_once, run
from cgsa.bench.summary import summarise
from cgsa.errors import ConfigError
from tests.toy_files import write_toy

MEASURED = ("setup_seconds", "seconds", "windows_per_second")
"""Columns that no two runs share."""


def bits(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{name: value for name, value in row.items() if name not in MEASURED} for row in rows]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def whole(toy: Path) -> tuple[Site, list[dict[str, object]]]:
    """A plan that was carried out without a stop."""
    site = Site(Plan.load(toy / "plan.toml"), toy / "whole", toy / "data")
    return site, run(site, workers=1)


def test_one_tidy_row_a_stage(whole: tuple[Site, list[dict[str, object]]]) -> None:
    site, rows = whole
    assert len(rows) == 2 * 2 * 2 * 3  # trials, faults, entries, stages and the whole stream
    for row in rows:
        assert row["stage"] in {"C1", "C2", WHOLE_STREAM}
        assert 0 <= float(str(row["accuracy"])) <= 1
        assert {"seed", "settings", "torch", "cgsa", "threads", "device"} <= row.keys()
    with (site.folder / "rows.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(rows)
    assert not any((site.folder / "training").iterdir())


def test_what_a_method_does_before_the_stream_is_no_cost_of_its_batches(toy: Path) -> None:
    """Tri-Training trains three models first; a batch still costs nine forwards, and a few for one retraining."""
    plan = Plan.load(toy / "plan.toml")
    frozen = Entry("frozen", "plain", "source")
    three = Entry("three", "plain", "tri_training", {"bootstrap_steps": 50})
    site = Site(replace(plan, entries=(frozen, three), trials=1), toy / "setup", toy / "data")
    rows = [row for row in run(site) if row["stage"] == WHOLE_STREAM]
    size = float(str(rows[0]["forward_volume"]))
    for row in rows:
        if row["entry"] == "three":
            batches = float(str(row["batches"]))
            assert 9 * size <= float(str(row["forward_volume"])) <= (9 + 15 / batches) * size
            assert float(str(row["backward_volume"])) <= 3 * size / batches


def test_volumes_are_in_the_rows(whole: tuple[Site, list[dict[str, object]]]) -> None:
    _, rows = whole
    volumes = {row["entry"]: row["forward_volume"] for row in rows if row["stage"] == WHOLE_STREAM}
    assert float(str(volumes["CGSA"])) > 2 * float(str(volumes["Baseline"]))


def test_any_row_done_again_alone_has_the_same_bits(whole: tuple[Site, list[dict[str, object]]]) -> None:
    site, rows = whole
    job = site.plan.meetings()[-1]
    again = meet_once(site, job)
    assert bits(again) == bits(rows)[-len(again) :]


def test_a_finished_plan_is_not_done_again(whole: tuple[Site, list[dict[str, object]]]) -> None:
    site, rows = whole
    calls: list[tuple[str, int, int]] = []
    assert run(site, done=lambda *what: calls.append(what)) == rows
    assert calls == [("", 12, 12)]


def test_trials_may_grow_and_nothing_else(whole: tuple[Site, list[dict[str, object]]]) -> None:
    site, _ = whole
    for changed in (replace(site, threads=2), replace(site, plan=replace(site.plan, seed=11))):
        with pytest.raises(ConfigError, match="holds a run with another"):
            run(changed)
    fewer = replace(site, plan=replace(site.plan, trials=1))
    assert len(run(fewer)) == 12
    run(site)


def test_totals_are_averaged_as_the_paper_does(whole: tuple[Site, list[dict[str, object]]]) -> None:
    _, rows = whole
    (lines,) = summarise(rows).values()
    assert [line.entry for line in lines] == ["Baseline", "CGSA"]
    mine = [row for row in rows if row["entry"] == "CGSA" and row["stage"] == WHOLE_STREAM]
    assert lines[1].mean == pytest.approx(sum(float(str(row["accuracy"])) for row in mine) / len(mine))


def test_a_plan_killed_again_and_again_ends_in_the_same_rows(
    toy: Path, whole: tuple[Site, list[dict[str, object]]]
) -> None:
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
    assert bits(json.loads(finished.stdout)) == bits(whole[1])


def test_a_failing_job_is_told_and_loses_nothing(toy: Path) -> None:
    plan = Plan.load(toy / "plan.toml")
    broken = replace(plan, entries=(plan.entries[0], replace(plan.entries[1], settings={"tua": 1})), trials=1)
    site = Site(broken, toy / "broken", toy / "data")
    with pytest.raises(ConfigError, match="tua: no such setting; did you mean 'tau'"):
        run(site)
    done = len(collect(site))
    assert done % 3 == 0
    for training in broken.trainings():
        assert (site.bundle(training) / "manifest.json").exists()


def test_jobs_can_be_done_one_by_one_in_any_order(toy: Path, whole: tuple[Site, list[dict[str, object]]]) -> None:
    site = replace(whole[0], folder=toy / "alone")
    job = site.plan.meetings()[-1]
    do_training(site, job.training)
    do_meeting(site, job)
    assert bits(collect(site)) == bits(whole[1])[-3:]
