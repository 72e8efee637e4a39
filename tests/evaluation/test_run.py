from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.data.dataset import DataSet
from cgsa.errors import DataError
from cgsa.evaluation.run import evaluate, evaluate_leaving_out
from cgsa.nn.bundle import ModelBundle
from cgsa.profile import Profile
from cgsa.workflow import train, training_windows
from tests.data.made_machine import write_machine

PROFILE = Profile.load("recommended", {"ensemble": {"seconds": 0.5}, "stream": {"batch_size": 2}})


def trained(data_set: DataSet, profile: Profile = PROFILE) -> ModelBundle:
    scenario = data_set.scenario()
    return train(scenario, profile, training_windows(scenario, profile, data_set))[0]


@pytest.fixture(scope="module")
def data_set(tmp_path_factory: pytest.TempPathFactory) -> DataSet:
    return write_machine(tmp_path_factory.mktemp("machine"), test_speeds=[900])


@pytest.fixture(scope="module")
def model(data_set: DataSet) -> ModelBundle:
    return trained(data_set)


def test_what_the_model_was_trained_on_is_told_apart(model: ModelBundle, data_set: DataSet) -> None:
    done: list[tuple[int, int, str]] = []
    found = evaluate(model, data_set, name="m", on_stream=lambda *now: done.append(now))
    new, known = found.groups
    assert {one.point for one in new.streams} == {"speed 900 rpm"}
    assert {one.point for one in known.streams} == {"speed 600 rpm", "speed 1200 rpm"}
    assert (len(done), done[-1][:2]) == (6, (6, 6))
    assert (found.method, found.classes) == ("commissioning", ("healthy", "worn"))
    assert known.accuracy is not None
    assert known.accuracy > 0.9
    assert all(sum(one.windows) == sum(one.verdicts) == sum(one.reliability.windows) for one in found.streams)


def test_every_condition_is_left_out_in_turn(model: ModelBundle, tmp_path: Path) -> None:
    found = evaluate_leaving_out(model, write_machine(tmp_path, speeds=[600, 900]), profile=PROFILE)
    assert found.left_out
    assert not any(one.trained for one in found.streams)
    assert [one.point for one in found.streams] == ["speed 600 rpm"] * 2 + ["speed 900 rpm"] * 2


def test_with_one_condition_specimens_are_left_out(model: ModelBundle, tmp_path: Path) -> None:
    found = evaluate_leaving_out(model, write_machine(tmp_path, speeds=[600], runs=2), profile=PROFILE)
    assert found.notes == ("there is only one operating condition; every run was left out in turn instead",)
    assert len(found.streams) == 4


def test_nothing_can_be_left_out_of_one_recording_per_class(model: ModelBundle, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing can be left out, so record a second one"):
        evaluate_leaving_out(model, write_machine(tmp_path, speeds=[600]))


def test_a_class_that_the_model_does_not_know_is_left_out(model: ModelBundle, tmp_path: Path) -> None:
    other = write_machine(tmp_path, states=["healthy", "cracked"], speeds=[600])
    found = evaluate(model, other)
    assert [one.truth for one in found.streams] == ["healthy"]
    assert found.notes == ("cracked: unknown to the model, which knows healthy, worn; left out",)


def test_the_healthy_class_must_be_the_same(model: ModelBundle, data_set: DataSet) -> None:
    turned = replace(data_set, about=replace(data_set.about, classes=("worn", "healthy")))
    with pytest.raises(DataError, match="its healthy class is 'worn', that of the model 'healthy'"):
        evaluate(model, turned)


def test_a_model_of_the_healthy_machine_says_that_it_changed(tmp_path: Path) -> None:
    healthy = write_machine(tmp_path / "healthy", states=["healthy"])
    profile = Profile.load("healthy_only", {"ensemble": {"seconds": 0.5}})
    found = evaluate(trained(healthy, profile), write_machine(tmp_path / "all"), profile=profile)
    assert found.classes == ("healthy", "changed")
    assert {(one.truth, one.label) for one in found.streams} == {("healthy", 0), ("worn", 1)}


def test_a_fault_without_a_healthy_recording_is_judged_alone(model: ModelBundle, data_set: DataSet) -> None:
    entries = tuple(one for one in data_set.about.recordings if one.label == "worn")
    found = evaluate(model, replace(data_set, about=replace(data_set.about, recordings=entries)))
    assert [one.before for one in found.streams] == [None] * 3
    assert "3 faults have no healthy recording before them" in found.notes[0]
