from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.bench.records import Row, number
from cgsa.bench.rotation import run
from cgsa.bench.rotation.folds import TRAINED, UNSEEN
from cgsa.bench.rotation.learners import BundleLearner
from cgsa.bench.rotation.run import (
    Rotation,
    RotationJob,
    RotationProgress,
    collect_rotation,
    rotation_jobs,
    run_rotation,
)
from cgsa.bench.rotation.sets import RotationSet, rig_set, steady_state_set
from cgsa.errors import ConfigError, DataError
from tests.bench.rotation.made_sets import InlineExecutor, write_profile, write_set


@pytest.fixture(name="pump")
def _pump(tmp_path: Path) -> RotationSet:
    return steady_state_set(write_set(tmp_path / "data" / "pump"))


@pytest.fixture(name="rotation")
def _rotation(tmp_path: Path) -> Rotation:
    profile = str(write_profile(tmp_path))
    return Rotation(tmp_path / "out", profile, peers=("RMS limits",), seeds=1, variants=(UNSEEN,))


def count_jobs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by the key of every job that runs from now on."""
    done: list[str] = []
    plain = run.rotation_job

    def counted(rotation: Rotation, job: RotationJob) -> str:
        done.append(job.key)
        return plain(rotation, job)

    monkeypatch.setattr(run, "rotation_job", counted)
    return done


def test_every_fold_gives_a_row_per_fault_and_entry(rotation: Rotation, pump: RotationSet) -> None:
    seen: list[RotationProgress] = []
    rows = run_rotation(rotation, [pump], InlineExecutor(), seen.append)["pump"]
    assert (seen[0].finished, seen[-1].finished, seen[-1].jobs) == (0, 6, 6)
    entries = ("tiny", "tiny, frozen", "RMS limits")
    assert [(row["left_out"], row["entry"], row["fault"]) for row in rows] == [
        (f"speed {speed} rpm", entry, fault)
        for speed in (600, 900, 1200)
        for group in (entries[:2], entries[2:])
        for fault in ("cracked", "worn")
        for entry in group
    ]
    for row in rows:
        assert all(0 <= number(row, name) <= 1 for name in ("accuracy", "verdict_accuracy", "detection"))
        assert row["missed"] == (row["delay"] is None)
    own = [row for row in rows if row["entry"] != "RMS limits"]
    assert all(0 < number(row, "held_out_accuracy") <= 1 for row in own)
    # Stages C1 and C2 are at the condition that is left out, C3 is at a trained one.
    assert all(0 <= 3 * number(row, "accuracy") - 2 * number(row, "left_out_accuracy") <= 1 + 1e-9 for row in rows)
    # The tiny network has its held-out accuracy from a calibration only.
    assert all(row["expected_accuracy"] is None for row in rows)
    with (rotation.folder / "rows" / "pump.csv").open(newline="") as file:
        stored = list(csv.DictReader(file))
    assert [row["entry"] for row in stored] == [row["entry"] for row in rows]


def test_finished_folds_are_not_run_again(
    rotation: Rotation, pump: RotationSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = count_jobs(monkeypatch)
    first = run_rotation(rotation, [pump], InlineExecutor())
    assert len(done) == 6
    lost = rotation_jobs(rotation, [pump])[3]
    lost.path(rotation).unlink()
    done.clear()
    again = run_rotation(rotation, [pump], InlineExecutor())
    assert done == [lost.key]

    def without_times(rows: dict[str, list[Row]]) -> list[Row]:
        return [{**row, "training_seconds": 0} for row in rows["pump"]]

    assert without_times(again) == without_times(first)


def test_variants_and_seeds_can_be_added(
    rotation: Rotation, pump: RotationSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = replace(rotation, profile=rotation.profile)
    done = count_jobs(monkeypatch)
    run_rotation(quick, [pump], InlineExecutor())
    done.clear()
    both = run_rotation(replace(quick, variants=(TRAINED,)), [pump], InlineExecutor())["pump"]
    assert {row["variant"] for row in both} == {TRAINED}
    assert len(done) == 6
    done.clear()
    every = run_rotation(replace(quick, variants=(UNSEEN, TRAINED)), [pump], InlineExecutor())["pump"]
    assert not done
    assert {row["variant"] for row in every} == {UNSEEN, TRAINED}
    more = run_rotation(replace(quick, seeds=2), [pump], InlineExecutor())["pump"]
    # Limits on the RMS depend on no seed.
    assert len(done) == 3
    assert {(row["entry"], row["seed"]) for row in more} == {
        ("tiny", 0),
        ("tiny", 1),
        ("tiny, frozen", 0),
        ("tiny, frozen", 1),
        ("RMS limits", 0),
    }


def test_a_folder_keeps_to_one_profile(rotation: Rotation, pump: RotationSet, tmp_path: Path) -> None:
    rotation.check_settings()
    (tmp_path / "tiny.toml").write_text((tmp_path / "tiny.toml").read_text().replace("epochs = 3", "epochs = 4"))
    with pytest.raises(ConfigError, match="contains a run with another profile;"):
        run_rotation(rotation, [pump], InlineExecutor())


def test_a_damaged_record_is_named(rotation: Rotation, pump: RotationSet) -> None:
    path = rotation_jobs(rotation, [pump])[0].path(rotation)
    path.parent.mkdir(parents=True)
    path.write_text("{")
    with pytest.raises(ConfigError, match=r"not a record of a rotation .*; remove it to run the fold again"):
        collect_rotation(rotation, [pump])


def test_the_method_of_the_paper_is_compared_on_request(rotation: Rotation, pump: RotationSet) -> None:
    asked = replace(rotation, paper=True)
    assert asked.learners == ("tiny", "CGSA", "RMS limits")
    learner = asked.learner("CGSA", pump)
    assert isinstance(learner, BundleLearner)
    assert (learner.objective, dict(learner.methods)) == ("cal", {"CGSA": "cgsa"})


def test_a_training_without_random_numbers_runs_once(rotation: Rotation, pump: RotationSet) -> None:
    jobs = rotation_jobs(
        replace(rotation, profile="recommended", peers=("extra trees", "shrinkage LDA"), seeds=2), [pump]
    )
    assert [(job.learner, job.seed) for job in jobs if job.fold == jobs[0].fold] == [
        ("recommended", 0),
        ("extra trees", 0),
        ("shrinkage LDA", 0),
        ("extra trees", 1),
    ]


def test_an_error_names_the_fold(rotation: Rotation, pump: RotationSet) -> None:
    for path in pump.folder.glob("worn__600rpm*"):
        path.unlink()
    with pytest.raises(DataError, match=r"pump without speed 600 rpm, tiny: .*worn__600rpm_0lb\.npz"):
        run_rotation(rotation, [pump], InlineExecutor())


def test_rigs_are_simulated_first(tmp_path: Path) -> None:
    rig = rig_set("gearbox", tmp_path, simulated=True)
    jobs = run._open_simulations([rig, rig])
    assert len(jobs) == 3 * 4 * 2
    jobs[0].path.parent.mkdir(parents=True)
    jobs[0].path.touch()
    assert len(run._open_simulations([rig])) == 3 * 4 * 2 - 1
    assert run._open_simulations([replace(rig, simulated=False)]) == []
