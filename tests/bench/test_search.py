from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.bench.plan import Plan
from cgsa.bench.search import search_scenario, write_search_scenarios
from cgsa.bench.tuning import search_plan
from cgsa.data.scenario import Scenario, SegmentSelection, builtin_scenarios, check_no_leak
from cgsa.errors import ConfigError
from tests.machines import SCENARIO, ToyLibrary


def test_a_search_streams_what_its_models_were_not_trained_on_and_no_comparison_scores() -> None:
    searched = search_scenario(SCENARIO)
    library = ToyLibrary(numbers=(1,))
    trained = [segment.recording.interval for segment in searched.training_segments(library)]
    compared = [segment.recording.interval for segment in SCENARIO.stream_segments(library, "wear")]
    streamed = [segment.recording.interval for segment in searched.stream_segments(library, "wear")]
    check_no_leak(trained, streamed)
    check_no_leak(compared, streamed)
    check_no_leak(compared, trained)


def test_the_last_of_three_segments_is_left_out_of_training() -> None:
    searched = search_scenario(Scenario.load("gearbox"))
    assert [cut.name for cut in searched.offline] == ["T1", "T2"]
    first, second, third = searched.online
    assert (first.ramp, first.part, first.fault_from) == ((10, 15), (0.05, 0.95), 1.0)
    assert (second.level, second.part, second.fault_from) == (10, (0.6, 0.95), 0.5)
    assert (third.ramp, third.fault_from) == ((0, 10), 0.0)
    assert third.part == pytest.approx((0.775, 0.95))


@pytest.mark.parametrize("name", builtin_scenarios())
def test_every_scenario_can_be_searched_and_read_back(name: str, tmp_path: Path) -> None:
    written = write_search_scenarios([name], tmp_path)
    assert Scenario.load(written[name]) == search_scenario(Scenario.load(name))
    assert Path(written[name]).stem == f"{name}-search"


def test_a_part_is_taken_of_a_part() -> None:
    one = replace(SCENARIO, offline=(SegmentSelection("T", "low", level=10, part=(0.0, 0.5)),))
    searched = search_scenario(one)
    assert searched.offline[0].part == pytest.approx((0.0, 0.3))
    assert [stage.part for stage in searched.online] == [pytest.approx((0.3, 0.3875)), pytest.approx((0.3875, 0.475))]


def test_segments_of_some_classes_cannot_be_searched() -> None:
    some = replace(SCENARIO, offline=(SegmentSelection("T", "low", level=10, states=("wear",)),))
    with pytest.raises(ConfigError, match="every offline segment is of some classes only"):
        search_scenario(some)


def test_the_plan_of_a_search_on_real_recordings_has_its_scenarios_and_their_settings() -> None:
    plan = replace(Plan.load("real"), trials=2)
    names = {name: f"/somewhere/{name}-search.toml" for name in plan.scenarios}
    found = search_plan(plan, 1, names)
    assert found.scenarios == tuple(names.values())
    assert found.watched == plan.watched
    assert found.first_trial == 2
    for name in plan.scenarios:
        assert found.profile_of(names[name]) == plan.profile_of(name)
