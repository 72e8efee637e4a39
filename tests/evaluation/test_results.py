from __future__ import annotations

import pytest

from cgsa.evaluation.results import NEW, TRAINED, StreamGroup
from tests.evaluation.made_results import evaluation, stream


def group(*streams: object) -> StreamGroup:
    return StreamGroup("all", streams)  # type: ignore[arg-type]


def test_healthy_and_faulty_windows_count_half_each() -> None:
    found = group(stream("healthy", right=10, wrong=0), stream("worn", right=1, wrong=1))
    assert found.confusion == ((10, 0), (1, 1))
    assert found.accuracy == 0.75
    assert found.verdict_accuracy == 0.75


def test_accuracy_without_a_fault_is_that_of_the_healthy_machine() -> None:
    assert group(stream("healthy", right=3, wrong=1)).accuracy == 0.75


def test_alarms_and_their_delays() -> None:
    found = group(stream("worn", delay=4.0), stream("worn", delay=2.0), stream("worn"), stream("healthy"))
    assert (found.alarms, found.named_alarms, len(found.faults), found.delay) == (2, 2, 3, 3.0)
    assert group(stream("worn")).delay is None


def test_false_alarms_count_per_hour_of_the_healthy_machine() -> None:
    found = group(stream("healthy", false_alarms=3), stream("healthy"), stream("worn"))
    assert found.healthy_hours == 1
    assert found.false_alarms_per_hour == 3
    assert group(stream("worn")).false_alarms_per_hour is None


def test_what_was_trained_on_stands_apart() -> None:
    new, known = stream("worn"), stream("worn", trained=True)
    groups = evaluation(known, new).groups
    assert [(one.name, one.streams) for one in groups] == [(NEW, (new,)), (TRAINED, (known,))]
    assert [one.name for one in evaluation(known).groups] == [TRAINED]


def test_groups_by_condition_are_in_their_order() -> None:
    found = group(stream("worn", "speed 1200 rpm"), stream("worn", "speed 600 rpm"), stream("healthy"))
    assert [(one.name, len(one.streams)) for one in found.by_point()] == [("speed 600 rpm", 2), ("speed 1200 rpm", 1)]
    assert [one.name for one in found.by_class()] == ["worn", "healthy"]


def test_a_group_is_a_part_of_a_card() -> None:
    part = group(stream("healthy", false_alarms=1), stream("worn", delay=2.0)).as_part()
    assert part.accuracy == pytest.approx(0.9)
    assert part.joined is not None
    assert (part.joined.delays, part.joined.false_alarms, part.joined.healthy_seconds) == ((2.0,), 1, 1800.0)
