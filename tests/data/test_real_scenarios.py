"""The built-in scenarios of real machines: their recordings exist, and training and stream do not overlap."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cgsa.data.library import open_library
from cgsa.data.scenario import Scenario, SegmentSelection, check_no_leak
from cgsa.data.steady_state import SteadyStateLibrary
from cgsa.data.windows import Windows, WindowSpec

DATA = Path(os.environ.get("CGSA_DATA", Path(__file__).parents[2] / "../shared/data"))
WINDOWS = {"limerick_motor": 1024, "limerick_motor_2d": 1024, "spectraquest_gearbox": 1024, "phone_motor2": 128}
"""Window length for each."""
FOLDERS = {"limerick_motor_2d": "limerick_motor"}
"""Recordings that several scenarios share."""

each_scenario = pytest.mark.parametrize("name", WINDOWS)


def real_library(scenario: Scenario) -> SteadyStateLibrary:
    folder = DATA / FOLDERS.get(scenario.name, scenario.name)
    if not folder.is_dir():
        pytest.skip(f"no recordings in {folder}; set CGSA_DATA to the folder that holds {folder.name}")
    library = open_library(folder, scenario)
    assert isinstance(library, SteadyStateLibrary)
    return library


def levels(scenario: Scenario, cut: SegmentSelection) -> tuple[float, ...]:
    """Return the level of every condition; all must have one."""
    found = tuple(level for _, level in cut.levels(scenario.conditions))
    assert len(found) == len(scenario.conditions)
    return found


@each_scenario
def test_the_stream_has_the_stages_of_the_paper(name: str) -> None:
    """Healthy and faulty at conditions absent from training, then faulty at a condition of training."""
    scenario = Scenario.load(name)
    trained = [levels(scenario, cut) for cut in scenario.offline]
    assert trained == sorted(set(trained))
    assert len(trained) >= 3
    assert [(levels(scenario, stage) in trained, stage.fault_from) for stage in scenario.online] == [
        (False, 1.0),
        (False, 0.5),
        (True, 0.0),
    ]
    for condition, held in zip(scenario.conditions, zip(*trained, strict=True), strict=True):
        assert (condition.minimum, condition.maximum) == (min(held), max(held))
    assert scenario.machine is None


@each_scenario
def test_every_class_is_trained_at_every_level(name: str) -> None:
    scenario = Scenario.load(name)
    segments = scenario.training_segments(real_library(scenario))
    windows = Windows(segments, WindowSpec(WINDOWS[name]), conditions=scenario.condition_names)
    found = set(zip(windows.labels.tolist(), windows.stages.tolist(), strict=True))
    assert found == {(label, part) for label in range(len(scenario.classes)) for part in range(len(scenario.offline))}
    assert windows.conditions is not None
    assert set(map(tuple, windows.conditions.tolist())) == {levels(scenario, cut) for cut in scenario.offline}
    # Neither offset nor gravity is left.
    assert windows.samples.mean(dim=1).abs().max() < 0.05 * windows.samples.std(dim=1).min()


@each_scenario
def test_no_stream_overlaps_the_training_data(name: str) -> None:
    scenario = Scenario.load(name)
    library = real_library(scenario)
    trained = [segment.recording.interval for segment in scenario.training_segments(library)]
    for label, fault in enumerate(scenario.faults, start=1):
        windows = Windows(scenario.stream_segments(library, fault), WindowSpec(WINDOWS[name]))
        check_no_leak(trained, windows.intervals)
        found = set(zip(windows.stages.tolist(), windows.labels.tolist(), strict=True))
        assert found == {(0, 0), (1, 0), (1, label), (2, label)}
        onset = int(windows.labels.argmax())
        assert (windows.labels[onset:] == label).all()


def test_only_the_gearbox_has_an_assumed_rate() -> None:
    notes = {name: real_library(Scenario.load(name)).notes for name in WINDOWS}
    assert [name for name, found in notes.items() if found] == ["spectraquest_gearbox"]


def test_the_stream_of_the_motor_combines_a_speed_and_a_load_that_training_has_only_separately() -> None:
    scenario = Scenario.load("limerick_motor_2d")
    trained = [levels(scenario, cut) for cut in scenario.offline]
    met = levels(scenario, scenario.online[0])
    assert met not in trained
    assert all(level in {one[place] for one in trained} for place, level in enumerate(met))
