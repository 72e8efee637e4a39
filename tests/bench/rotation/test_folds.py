from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.bench.rotation.folds import MIN_TRAINED_POINTS, TRAINED, UNSEEN, RotationFold, rotation_folds
from cgsa.bench.rotation.sets import steady_state_set
from cgsa.data.library import open_library
from cgsa.data.scenario import SpecimenKind, check_no_leak
from tests.bench.rotation.made_sets import made_set, merge_sets, write_set


def recordings_watched(fold: RotationFold) -> set[tuple[str, int]]:
    """Run and specimen of every recording in the stages C1 and C2 of a fold."""
    stages = [(stage, stream.specimen) for stream in fold.streams for stage in stream.stages]
    return {(run, specimen) for stage, specimen in stages if stage.name in {"C1", "C2"} for run in stage.runs}


@given(
    speeds=st.integers(1, 4),
    loads=st.integers(1, 3),
    specimens=st.integers(1, 3),
    kind=st.sampled_from(["unit", "run"]),
)
def test_every_recording_is_left_out_exactly_once_per_kind(
    speeds: int, loads: int, specimens: int, kind: SpecimenKind
) -> None:
    rotated = made_set(speeds, loads, specimens, kind)
    folds = rotation_folds(rotated)
    every = {(run, specimen) for point in rotated.points for run in point.runs for specimen in rotated.specimens}
    once = Counter(every)
    enough = len(rotated.points) > MIN_TRAINED_POINTS
    watched = {name: Counter[tuple[str, int]]() for name in ("condition", "level", "unit", "run", "unit and condition")}
    for fold in folds:
        watched[fold.kind].update(recordings_watched(fold))
    assert watched["condition"] == (once if enough else Counter())
    assert watched[kind] == (once if specimens > 1 else Counter())
    assert watched["unit and condition"] == (once if enough and specimens > 1 and kind == "unit" else Counter())
    # A level needs another point, or it is the fold of its only point, and two points must remain.
    by_quantity = [
        many > 1 and len(rotated.points) - len(rotated.points) // levels >= MIN_TRAINED_POINTS
        for levels, many in ((speeds, loads), (loads, speeds))
    ]
    assert watched["level"] == Counter({recording: sum(by_quantity) for recording in every if sum(by_quantity)})


@given(speeds=st.integers(1, 4), loads=st.integers(1, 3), specimens=st.integers(1, 3))
def test_folds_have_different_keys_and_train_on_nothing_that_they_leave_out(
    speeds: int, loads: int, specimens: int
) -> None:
    rotated = made_set(speeds, loads, specimens)
    folds = rotation_folds(rotated)
    assert len({fold.key for fold in folds}) == len(folds)
    for fold in folds:
        trained = {(run, specimen) for cut in fold.scenario.offline for run in cut.runs for specimen in fold.train_on}
        assert not trained & recordings_watched(fold)


@pytest.mark.parametrize("many", [{}, {"units": 2}, {"runs": 2}, {"loads": (0, 5, 11)}])
def test_no_fold_trains_on_samples_of_its_streams(tmp_path: Path, many: dict[str, int]) -> None:
    rotated = steady_state_set(write_set(tmp_path / "pump", **many))  # type: ignore[arg-type]
    folds = rotation_folds(rotated)
    assert folds
    for fold in folds:
        library = open_library(rotated.folder, fold.scenario, train_on=fold.train_on)
        trained = [segment.recording.interval for segment in fold.scenario.training_segments(library)]
        for stream in fold.streams:
            segments = fold.scenario_of(stream).stream_segments(library, "worn", specimen=stream.specimen)
            check_no_leak(trained, [segment.recording.interval for segment in segments])


def test_a_stream_goes_from_the_left_out_condition_to_the_nearest_trained_one(tmp_path: Path) -> None:
    rotated = steady_state_set(write_set(tmp_path / "pump", speeds=(600, 700, 1200)))
    first, second, third = rotation_folds(rotated)
    assert [fold.left_out for fold in (first, second, third)] == ["speed 600 rpm", "speed 700 rpm", "speed 1200 rpm"]
    unseen, trained = third.streams
    assert [(stage.name, stage.run, stage.part, stage.fault_from) for stage in unseen.stages] == [
        ("C1", "1200rpm_0lb", (0.0, 1.0), 1.0),
        ("C2", "1200rpm_0lb", (0.0, 1.0), 0.0),
        ("C3", "700rpm_0lb", (0.6, 1.0), 0.0),
    ]
    assert (unseen.variant, trained.variant) == (UNSEEN, TRAINED)
    start, *rest = trained.stages
    assert (start.name, start.run, start.part, start.fault_from) == ("C0", "700rpm_0lb", (0.6, 1.0), 1.0)
    assert tuple(rest) == unseen.stages
    assert second.streams[0].stages[-1].run == "600rpm_0lb"
    assert [cut.part for cut in third.scenario.offline] == [(0.0, 0.6)] * 2


def test_a_level_is_left_out_at_all_levels_of_the_other_quantity() -> None:
    folds = [fold for fold in rotation_folds(made_set(3, 2, 1)) if fold.kind == "level"]
    assert [fold.left_out for fold in folds] == ["speed 0 rpm", "speed 1 rpm", "speed 2 rpm", "load 0 lb", "load 1 lb"]
    assert folds[0].streams[0].stages[0].runs == ("0rpm_0lb", "0rpm_1lb")
    assert folds[0].streams[0].stages[0].level == {"speed_rpm": 0}
    assert folds[0].streams[0].condition == "speed 0 rpm"


def test_the_lowest_and_the_highest_level_are_beyond_the_training() -> None:
    folds = rotation_folds(made_set(4, 3, 1), [UNSEEN])
    found = {fold.left_out: fold.beyond_training for fold in folds if fold.kind == "level"}
    assert found
    for name, beyond in found.items():
        levels = sorted(float(other.split()[1]) for other in found if other.split()[0] == name.split()[0])
        assert beyond == (float(name.split()[1]) in (levels[0], levels[-1]))


def test_a_unit_is_left_out_alone_and_together_with_each_condition() -> None:
    folds = rotation_folds(made_set(3, 1, 2))
    units = [fold for fold in folds if fold.kind == "unit"]
    assert [(fold.left_out, fold.train_on) for fold in units] == [("unit 1", (2,)), ("unit 2", (1,))]
    assert len(units[0].scenario.offline) == 3
    assert [stream.condition for stream in units[0].streams if stream.variant == UNSEEN] == [
        f"speed {level} rpm, load 0 lb" for level in range(3)
    ]
    joint = [fold for fold in folds if fold.kind == "unit and condition"]
    assert len(joint) == 6
    assert (joint[0].left_out, joint[0].train_on) == ("unit 1, speed 0 rpm, load 0 lb", (2,))
    assert len(joint[0].scenario.offline) == 2
    assert [stream.specimen for stream in joint[0].streams] == [1, 1]
    # Other folds watch every unit.
    assert {stream.specimen for stream in folds[0].streams} == {1, 2}


def test_a_specimen_without_a_trained_condition_has_a_shorter_stream(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "pump", speeds=(600, 900, 1200), runs=1)
    write_more = write_set(tmp_path / "more", speeds=(1200,), runs=2)
    rotated = steady_state_set(merge_sets(folder, write_more))
    fold = next(fold for fold in rotation_folds(rotated) if fold.left_out == "speed 1200 rpm")
    assert [(stream.specimen, stream.variant, len(stream.stages)) for stream in fold.streams] == [
        (1, UNSEEN, 3),
        (1, TRAINED, 4),
        (2, UNSEEN, 2),
    ]


def test_a_specimen_is_trained_on_if_it_has_every_class_somewhere(tmp_path: Path) -> None:
    more = write_set(tmp_path / "more", speeds=(600,), runs=2)
    rotated = steady_state_set(merge_sets(write_set(tmp_path / "pump", runs=1), more))
    # The second run was recorded at 600 rpm only.
    by_name = {fold.left_out: fold.train_on for fold in rotation_folds(rotated)}
    assert by_name["speed 600 rpm"] == (1,)
    assert by_name["speed 900 rpm"] == (1, 2)


def test_variants_can_be_chosen() -> None:
    folds = rotation_folds(made_set(3, 1, 1), [TRAINED])
    assert {stream.variant for fold in folds for stream in fold.streams} == {TRAINED}
