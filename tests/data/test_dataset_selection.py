from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.data.dataset_file import ChannelEntry, ConditionEntry, MachineFile, RecordingEntry
from cgsa.data.dataset_selection import NO_CONDITION, natural_order, scenario_of, select_recordings, specimen_numbers
from cgsa.errors import DataError


def entry(
    label: str, speed: object = None, *, unit: str | None = None, run: str | None = None, test: bool = False
) -> RecordingEntry:
    conditions = {} if speed is None else {"speed": speed}
    return RecordingEntry("x.parquet", label, conditions, unit, run, split="test" if test else None)


def about(*entries: RecordingEntry, classes: Sequence[str] = ("healthy", "worn")) -> MachineFile:
    conditions = (ConditionEntry("speed", "rpm"),) if entries[0].conditions else ()
    return MachineFile("pump", 1000.0, tuple(classes), (ChannelEntry("x", "g"),), entries, conditions)


def test_repeated_recordings_of_one_specimen_get_a_number() -> None:
    found = select_recordings(about(entry("healthy", 600), entry("healthy", 600), entry("worn", 600)))
    assert [one.run for one in found] == ["speed 600 rpm", "speed 600 rpm #2", "speed 600 rpm"]
    assert {one.point for one in found} == {"speed 600 rpm"}


def test_a_measured_condition_names_the_range_that_it_covers() -> None:
    found = select_recordings(about(entry("healthy", [590.0, 612.0]), entry("worn", [600.0, 1800.0])))
    assert [one.point for one in found] == ["speed 600 rpm", "speed 600 to 1800 rpm"]


def test_units_that_healthy_and_faulty_recordings_share_have_one_number() -> None:
    entries = [entry("healthy", unit="A"), entry("healthy", unit="B"), entry("worn", unit="B")]
    assert specimen_numbers(entries, "healthy") == [1, 2, 2]


def test_units_of_their_own_are_numbered_class_by_class() -> None:
    """As healthy and damaged bearings are, of which none is both."""
    entries = [entry("healthy", unit="K001"), entry("healthy", unit="K002"), entry("worn", unit="KI04")]
    assert specimen_numbers(entries, "healthy") == [1, 2, 1]


def test_runs_count_as_specimens_only_without_units() -> None:
    assert specimen_numbers([entry("healthy", run="2"), entry("healthy", run="10")], "healthy") == [1, 2]
    assert specimen_numbers([entry("healthy", run="2", unit="A"), entry("healthy", run="10", unit="A")], "healthy") == [
        1,
        1,
    ]


@given(st.lists(st.from_regex(r"[a-c]{0,2}[0-9]{0,3}[a-c]?", fullmatch=True)))
def test_the_natural_order_does_not_depend_on_the_order_before(names: list[str]) -> None:
    turned = names[::-1]
    assert sorted(names, key=natural_order) == sorted(turned, key=natural_order)


def test_a_class_is_trained_on_where_it_was_recorded() -> None:
    given = about(entry("healthy", 600), entry("healthy", 900), entry("worn", 600), entry("worn", 900, test=True))
    scenario = scenario_of(given, select_recordings(given))
    assert [(cut.name, cut.states, cut.whole) for cut in scenario.offline] == [
        ("speed 600 rpm", (), True),
        ("speed 900 rpm", ("healthy",), True),
    ]


def test_the_range_of_a_condition_is_that_of_the_training() -> None:
    given = about(entry("healthy", 600), entry("healthy", 900), entry("healthy", 1800, test=True), classes=["healthy"])
    [condition] = scenario_of(given, select_recordings(given)).conditions
    assert (condition.minimum, condition.maximum, condition.tolerance) == (600, 900, 75)


def test_a_class_that_is_only_tested_is_no_class_of_the_training() -> None:
    given = about(entry("healthy", 600), entry("worn", 600, test=True))
    assert scenario_of(given, select_recordings(given)).faults == ()


def test_a_machine_without_conditions_has_a_constant_one() -> None:
    given = about(entry("healthy"), entry("worn"))
    assert scenario_of(given, select_recordings(given)).conditions == (NO_CONDITION,)


def test_training_needs_the_healthy_machine() -> None:
    given = about(entry("worn", 600))
    with pytest.raises(DataError, match="pump: no recording of 'healthy' to train on"):
        scenario_of(given, select_recordings(given))
