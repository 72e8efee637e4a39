"""The built-in scenarios of real machines: their recordings exist, and training and stream do not overlap."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest

from cgsa.data.library import open_library
from cgsa.data.scenario import Scenario, SegmentSelection, builtin_scenarios, check_no_leak
from cgsa.data.steady_state import SteadyStateLibrary
from cgsa.data.windows import Windows, WindowSpec
from cgsa.errors import DataError

DATA = Path(os.environ.get("CGSA_DATA", Path(__file__).parents[2] / "../shared/data"))
WINDOWS = {
    "bldc_iq": 256,
    "current_motor": 1024,
    "kat_units": 1024,
    "limerick_motor": 1024,
    "limerick_motor_2d": 1024,
    "phone_motor2": 128,
    "spectraquest_gearbox": 1024,
}
"""Window length for each."""
FOLDERS = {"limerick_motor_2d": "limerick_motor"}
"""Recordings that several scenarios share."""

each_scenario = pytest.mark.parametrize("name", WINDOWS)


def real_library(scenario: Scenario, *, train_on: Sequence[int] | None = None) -> SteadyStateLibrary:
    folder = DATA / FOLDERS.get(scenario.name, scenario.name)
    if not folder.is_dir():
        pytest.skip(f"no recordings in {folder}; set CGSA_DATA to the folder that holds {folder.name}")
    library = open_library(folder, scenario, train_on=train_on)
    assert isinstance(library, SteadyStateLibrary)
    return library


def levels(scenario: Scenario, cut: SegmentSelection) -> tuple[float, ...]:
    """Return the level of every condition; all must have one."""
    found = tuple(level for _, level in cut.levels(scenario.conditions))
    assert len(found) == len(scenario.conditions)
    return found


def test_every_scenario_without_a_rig_is_tested_here() -> None:
    assert {name for name in builtin_scenarios() if Scenario.load(name).machine is None} == WINDOWS.keys()


@each_scenario
def test_the_stream_has_the_stages_of_the_paper(name: str) -> None:
    """Healthy and faulty at conditions absent from training, then faulty at a condition of training."""
    scenario = Scenario.load(name)
    trained = [levels(scenario, cut) for cut in scenario.offline]
    assert trained == sorted(set(trained))
    # One set has four operating points in all.
    assert len(trained) >= (2 if name == "kat_units" else 3)
    assert [(levels(scenario, stage) in trained, stage.fault_from) for stage in scenario.online] == [
        (False, 1.0),
        (False, 0.5),
        (True, 0.0),
    ]
    every = [*trained, *(levels(scenario, stage) for stage in scenario.online)]
    for place, condition in enumerate(scenario.conditions):
        held = {one[place] for one in trained}
        # A condition that training does not change has the range of all recordings.
        known = held if len(held) > 1 else {one[place] for one in every}
        assert (condition.minimum, condition.maximum) == (min(known), max(known))


@each_scenario
def test_every_class_is_trained_at_every_level(name: str) -> None:
    scenario = Scenario.load(name)
    segments = scenario.training_segments(real_library(scenario))
    windows = Windows(
        [segment.centred() for segment in segments], WindowSpec(WINDOWS[name]), conditions=scenario.condition_names
    )
    found = set(zip(windows.labels.tolist(), windows.stages.tolist(), strict=True))
    assert found == {(label, part) for label in range(len(scenario.classes)) for part in range(len(scenario.offline))}
    assert windows.conditions is not None
    found_levels = {tuple(round(level, 4) for level in row) for row in windows.conditions.tolist()}
    assert found_levels == {levels(scenario, cut) for cut in scenario.offline}
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
        for one, other in combinations(windows.intervals, 2):
            check_no_leak([one], [other])
        found = set(zip(windows.stages.tolist(), windows.labels.tolist(), strict=True))
        assert found == {(0, 0), (1, 0), (1, label), (2, label)}
        onset = int(windows.labels.argmax())
        assert (windows.labels[onset:] == label).all()


def test_only_the_gearbox_has_an_assumed_rate() -> None:
    notes = {name: real_library(Scenario.load(name)).notes for name in WINDOWS}
    assert [name for name, found in notes.items() if found] == ["spectraquest_gearbox"]


@pytest.mark.parametrize("name", ["current_motor", "kat_units", "limerick_motor_2d"])
def test_the_stream_begins_with_levels_that_training_has_only_separately(name: str) -> None:
    scenario = Scenario.load(name)
    trained = [levels(scenario, cut) for cut in scenario.offline]
    met = levels(scenario, scenario.online[0])
    assert met not in trained
    assert all(level in {one[place] for one in trained} for place, level in enumerate(met))


def test_every_bearing_is_a_specimen() -> None:
    library = real_library(Scenario.load("kat_units"))
    units = {(file.state, file.specimen): file.unit for file in library.files}
    assert list(library.specimens()) == [1, 2, 3]
    assert [units[state, 2] for state in ("healthy", "inner", "outer")] == ["K002", "KI14", "KA15"]
    assert len(units) == 9


def test_a_bearing_can_be_left_out_of_training() -> None:
    scenario = Scenario.load("kat_units")
    library = real_library(scenario, train_on=[1, 3])
    segments = scenario.training_segments(library)
    assert {segment.machine for segment in segments} == {1, 3}
    trained = {segment.recording.source for segment in segments}
    streamed = {segment.recording.source for segment in scenario.stream_segments(library, "outer", specimen=2)}
    assert not trained & streamed
    assert all("healthy_K002__" in source or "outer_KA15__" in source for source in streamed)


def test_every_repetition_of_the_brushless_motor_is_trained_on() -> None:
    """There are three to eight, by class and speed."""
    scenario = Scenario.load("bldc_iq")
    library = real_library(scenario)
    counts = Counter((segment.label, segment.stage) for segment in scenario.training_segments(library))
    assert counts == {(0, 0): 8, (0, 1): 3, (0, 2): 3, (1, 0): 7, (1, 1): 3, (1, 2): 4}
    with pytest.raises(DataError, match="scenario bldc_iq: no recording of normal, 0900rpm, for 900 rpm"):
        scenario.training_segments(real_library(scenario, train_on=[4, 5]))
