from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgsa.config import as_table, bind
from cgsa.data.recording import Recording
from cgsa.data.scenario import (
    Condition,
    FoundInterval,
    Scenario,
    SegmentSelection,
    Stage,
    builtin_scenarios,
    check_no_leak,
    find_segment,
)
from cgsa.data.windows import Windows, WindowSpec
from cgsa.errors import ConfigError, DataError, LeakError, UnknownNameError
from tests.machines import (
    BOTH,
    CONDITION,
    RATE,
    SCENARIO,
    SPEED,
    ToyLibrary,
    TwoConditions,
    noise_recording,
    segment,
)


class TwoRuns(ToyLibrary):
    """A toy machine with a second recording of its low run, named ``lower``."""

    def get(self, state: str, run: str, *, severity: str, specimen: int) -> Recording:
        found = super().get(state, "low", severity=severity, specimen=specimen)
        return replace(found, source=f"toy/{specimen}/{state}/{run}")


class Incomplete(ToyLibrary):
    """A toy machine with only some combinations of state, run and specimen."""

    def __init__(self, existing: set[tuple[str, str, int]]) -> None:
        super().__init__()
        self.existing = existing

    def specimens_of(self, state: str, run: str) -> Sequence[int]:
        return [number for number in self.numbers if (state, run, number) in self.existing]

    def get(self, state: str, run: str, *, severity: str, specimen: int) -> Recording:
        assert (state, run, specimen) in self.existing
        return super().get(state, run, severity=severity, specimen=specimen)


def test_scenarios_of_the_paper_are_built_in() -> None:
    gearbox, motor = Scenario.load("gearbox"), Scenario.load("motor")
    assert [stage.level for stage in gearbox.online] == [20, 15, 5]
    assert [stage.level for stage in motor.online] == [30, 40, 15]
    assert [[one.maximum for one in scenario.conditions] for scenario in (gearbox, motor)] == [[15], [30]]
    for scenario in (gearbox, motor):
        assert len(scenario.channels) == 6
        assert [stage.fault_from for stage in scenario.online] == [1.0, 0.5, 0.0]
        assert scenario.require_rig() == scenario.name


@pytest.mark.parametrize("name", builtin_scenarios())
def test_every_builtin_scenario_has_the_name_of_its_file(name: str) -> None:
    assert Scenario.load(name).name == name


def test_a_scenario_without_a_rig_asks_for_recordings() -> None:
    with pytest.raises(ConfigError, match=r"scenario toy: no rig simulates it; pass a folder of recordings"):
        replace(SCENARIO, machine=None).require_rig()


def test_unknown_scenario_lists_the_known_ones() -> None:
    with pytest.raises(
        UnknownNameError, match=r"unknown scenario 'gearbx'; did you mean 'gearbox'\? known: .*gearbox, .*motor"
    ):
        Scenario.load("gearbx")


def test_all_errors_of_a_scenario_file_are_reported(tmp_path: Path) -> None:
    text = builtin_scenarios()["gearbox"].read_text()
    path = tmp_path / "mine.toml"
    path.write_text(text.replace("sample_rate = 12800", 'sample_rate = "fast"').replace("healthy =", "healthi ="))
    with pytest.raises(ConfigError) as caught:
        Scenario.load(path)
    message = str(caught.value)
    assert "sample_rate: expected a number, got 'fast'" in message
    assert "healthi: no such setting; did you mean 'healthy'?" in message
    assert "healthy: missing" in message
    assert str(path) in message


def test_unknown_fault_is_refused() -> None:
    with pytest.raises(ConfigError, match="no fault 'rust'; it has wear, crack"):
        SCENARIO.stream_segments(ToyLibrary(), "rust")


def test_segments_are_cut_by_the_measured_condition() -> None:
    segments = SCENARIO.training_segments(ToyLibrary())
    assert len(segments) == 2 * 3 * 2
    for piece in segments:
        torque = piece.recording.conditions["torque"]
        if piece.stage == 0:
            assert torque[:20].mean() == pytest.approx(0.5, abs=0.3)
            assert torque[-20:].mean() == pytest.approx(9.5, abs=0.3)
        else:
            assert np.abs(torque - 10).max() < 0.8
            assert piece.recording.samples == 2 * RATE


COMBINATIONS = {(state, run, number) for state in SCENARIO.classes for run in ("low", "high") for number in (1, 2)}


@settings(max_examples=30, deadline=None)
@given(st.sets(st.sampled_from(sorted(COMBINATIONS)), max_size=4))
def test_training_uses_what_exists_in_the_order_of_a_complete_library(missing: set[tuple[str, str, int]]) -> None:
    existing = COMBINATIONS - missing
    scenario = replace(SCENARIO, offline=(SCENARIO.offline[0], SegmentSelection("T2", "high", level=20)))
    needed = {(state, cut.run) for state in scenario.classes for cut in scenario.offline}
    if needed - {(state, run) for state, run, _ in existing}:
        with pytest.raises(
            DataError, match=r"no recording of \w+, (low|high), for T[12]; expected one of any .*\(1, 2\)"
        ):
            scenario.training_segments(Incomplete(existing))
        return
    complete, found = (scenario.training_segments(library) for library in (ToyLibrary(), Incomplete(existing)))
    assert [(piece.label, piece.stage, piece.machine, piece.recording.interval) for piece in found] == [
        (piece.label, piece.stage, piece.machine, piece.recording.interval)
        for piece in complete
        if (scenario.classes[piece.label], scenario.offline[piece.stage].run, piece.machine) in existing
    ]


def test_a_class_without_a_recording_for_a_segment_is_an_error() -> None:
    existing = {(state, "low", 1) for state in SCENARIO.classes if state != "crack"}
    with pytest.raises(
        DataError,
        match=r"scenario toy: no recording of crack, low, for T1; "
        r"expected one of any specimen that training may use \(1, 2\)",
    ):
        SCENARIO.training_segments(Incomplete(existing))


def test_a_whole_run_needs_no_level() -> None:
    cut = SegmentSelection("all", "low", whole=True)
    [first, *_] = replace(SCENARIO, offline=(cut,)).training_segments(ToyLibrary())
    recording = ToyLibrary().get("health", "low", severity="H", specimen=1)
    assert first.recording.samples == recording.samples


def test_a_segment_may_be_of_some_classes_only() -> None:
    cuts = (SegmentSelection("all", "low", whole=True), SegmentSelection("some", "high", whole=True, states=("wear",)))
    segments = replace(SCENARIO, offline=cuts).training_segments(ToyLibrary(numbers=(1,)))
    assert [(one.label, one.stage) for one in segments] == [(0, 0), (1, 0), (1, 1), (2, 0)]


def test_a_recording_shorter_than_a_second_may_be_at_a_level() -> None:
    recording = noise_recording(int(RATE / 2))
    level = replace(recording, conditions={"torque": np.full(recording.samples, 5, np.float32)})
    found = find_segment(level, SCENARIO.conditions, SegmentSelection("T1", "low", level=5))
    assert found == FoundInterval(0, recording.samples)


def test_stream_is_healthy_until_the_onset_and_faulty_after_it() -> None:
    segments = SCENARIO.stream_segments(ToyLibrary(), "crack")
    assert [(piece.stage, piece.label) for piece in segments] == [(0, 0), (1, 0), (1, 2), (2, 2)]
    assert [piece.recording.label for piece in segments] == ["health", "health", "crack", "crack"]
    assert [piece.recording.samples for piece in segments] == [2000, 1000, 1000, 2000]


def test_several_runs_of_a_stage_are_all_healthy_before_any_is_faulty() -> None:
    both = Stage("C", "low", also=("lower",), level=10, seconds=2, fault_from=0.25)
    scenario = replace(SCENARIO, offline=(SegmentSelection("T", "low", also=("lower",), ramp=(0, 10)),), online=(both,))
    assert scenario.runs == ("low", "lower")
    training = scenario.training_segments(TwoRuns())
    assert [piece.recording.source.split("/")[-1] for piece in training[:2]] == ["low", "lower"]
    assert {piece.stage for piece in training} == {0}
    stream = scenario.stream_segments(TwoRuns(), "wear")
    assert [piece.recording.source for piece in stream] == [
        "toy/1/health/low",
        "toy/1/health/lower",
        "toy/1/wear/low",
        "toy/1/wear/lower",
    ]
    assert [piece.recording.samples for piece in stream] == [500, 500, 1500, 1500]


def test_two_parts_of_one_interval_do_not_overlap() -> None:
    first, rest = (
        replace(SCENARIO, offline=(SegmentSelection("T", "low", level=10, part=part),))
        .training_segments(ToyLibrary())[0]
        .recording
        for part in ((0.0, 0.6), (0.6, 1.0))
    )
    assert first.offset + first.samples == rest.offset
    assert first.samples / (first.samples + rest.samples) == pytest.approx(0.6, abs=1e-3)
    check_no_leak([first.interval], [rest.interval])


def test_paper_stream_has_ninety_three_batches() -> None:
    """C1 and C3 have 7,937 windows each; C2 has two halves of 5 s, cut at the onset."""
    spec = WindowSpec()
    ten, five = noise_recording(128_000), noise_recording(64_000)
    stream = Windows(
        [segment(ten, stage=0), segment(five, stage=1), segment(five, stage=1), segment(ten, stage=2)], spec
    )
    assert len(stream) == 7937 + 2 * 3937 + 7937
    assert len(list(stream.batches(256))) == 93


def test_scenario_of_the_toy_machine_does_not_leak() -> None:
    library = ToyLibrary()
    training, stream = SCENARIO.training_segments(library), SCENARIO.stream_segments(library, "wear")
    check_no_leak([piece.recording.interval for piece in training], [piece.recording.interval for piece in stream])


def test_a_shared_raw_sample_is_a_leak() -> None:
    recording = noise_recording(source="run.csv")
    with pytest.raises(LeakError, match=r"run\.csv: samples 99 to 100 are in both training data and stream"):
        check_no_leak([recording.cut(0, 100).interval], [recording.cut(99, 150).interval])
    check_no_leak([recording.cut(0, 100).interval], [recording.cut(100, 150).interval])
    other = noise_recording(source="other.csv")
    check_no_leak([recording.interval], [other.interval])


def test_error_for_an_absent_level_gives_the_measured_range() -> None:
    recording = ToyLibrary().get("health", "low", severity="H", specimen=1)
    with pytest.raises(
        DataError, match=r"no interval at 30 Nm for C9; measured torque goes from -?0\.\d+ to 10\.\d+ Nm"
    ):
        find_segment(recording, [CONDITION], SegmentSelection("C9", "low", level=30))


def test_a_ramp_passing_through_is_not_a_level() -> None:
    recording = ToyLibrary().get("health", "low", severity="H", specimen=1)
    with pytest.raises(DataError, match="no interval at 2 Nm"):
        find_segment(recording, [CONDITION], SegmentSelection("C9", "low", level=2))


def test_a_level_with_a_deviation_of_a_few_percent_is_found() -> None:
    recording = ToyLibrary().get("health", "high", severity="H", specimen=1)
    off = replace(recording, conditions={"torque": 0.965 * recording.conditions["torque"]})
    found = find_segment(off, [CONDITION], SegmentSelection("C1", "high", level=20, seconds=2))
    assert found.end - found.begin == 2 * RATE
    assert off.conditions["torque"][found.begin : found.end].mean() == pytest.approx(19.3, abs=0.1)
    assert [note[:15] for note in found.notes] == ["C1: torque 19.3"]
    with pytest.raises(DataError, match="no interval at 20 Nm"):
        find_segment(
            replace(recording, conditions={"torque": 0.9 * recording.conditions["torque"]}),
            [CONDITION],
            SegmentSelection("C1", "high", level=20, seconds=2),
        )


T1 = SegmentSelection("T1", "run", ramp=(0, 10))


def torque_from(idle: float, plateau: float) -> Recording:
    """Rest at one torque for a second, a rise of two seconds, and a plateau for a second."""
    seconds = np.arange(round(4 * RATE)) / RATE
    torque = np.interp(seconds, [1, 3], [idle, plateau])
    return replace(noise_recording(seconds.size), conditions={"torque": torque.astype(np.float32)})


@given(idle=st.floats(-2, 0.99), plateau=st.floats(9.01, 12))
def test_a_ramp_may_be_off_by_twice_the_tolerance_at_both_ends(idle: float, plateau: float) -> None:
    recording = torque_from(idle, plateau)
    found = find_segment(recording, [CONDITION], T1)
    torque = recording.conditions["torque"][found.begin : found.end]
    assert torque[0] <= 1.1
    assert torque[-1] >= 8.9
    within = idle <= CONDITION.tolerance - 1e-3 and plateau >= 10 - CONDITION.tolerance + 1e-3
    outside = idle > CONDITION.tolerance + 1e-3 or plateau < 10 - CONDITION.tolerance - 1e-3
    assert not (within and found.notes)
    assert not (outside and not found.notes)


def test_only_the_end_of_a_ramp_that_is_off_is_moved() -> None:
    idle, plateau, both = (
        find_segment(torque_from(*ends), [CONDITION], T1) for ends in ((0.6, 10), (0, 9.4), (0.6, 9.4))
    )
    assert idle.notes == (
        "T1: the rise over 1 to 9.5 Nm is accepted as 0 to 10 Nm; measured torque goes from 0.60 to 10.00 Nm",
    )
    assert [note[:26] for one in (plateau, both) for note in one.notes] == [
        "T1: the rise over 0.5 to 9",
        "T1: the rise over 1 to 9 N",
    ]


@pytest.mark.parametrize("ends", [(1.1, 10), (0, 8.9)])
def test_a_ramp_that_is_off_by_more_is_refused_with_the_cure(ends: tuple[float, float]) -> None:
    with pytest.raises(DataError, match=r"no rise over 0 to 10 Nm for T1; .* up to 1 Nm off is accepted; replace"):
        find_segment(torque_from(*ends), [CONDITION], T1)


def test_tolerances_never_meet_within_a_short_ramp() -> None:
    short = SegmentSelection("T1", "run", ramp=(0, 1.5))
    found = find_segment(torque_from(0.45, 10), [CONDITION], short)
    assert found.notes == ()
    with pytest.raises(DataError, match=r"no rise over 0 to 1\.5 Nm"):
        find_segment(torque_from(0.6, 10), [CONDITION], short)


def test_a_level_may_be_off_by_twice_the_tolerance_if_nothing_is_closer() -> None:
    level = SegmentSelection("T2", "run", level=10, seconds=0.9)
    found = find_segment(torque_from(0, 9.4), [CONDITION], level)
    assert found.notes == ("T2: torque 9.38 Nm is accepted as 10 Nm",)
    with pytest.raises(DataError, match=r"no interval at 10 Nm for T2; .* up to 1 Nm off is accepted, held for 1 s"):
        find_segment(torque_from(0, 8.9), [CONDITION], level)


def test_a_shorter_time_is_noted() -> None:
    recording = torque_from(0, 10)
    found = find_segment(recording, [CONDITION], SegmentSelection("C1", "run", level=10, seconds=2))
    assert found.notes == (f"C1: {(found.end - found.begin) / RATE:.2f} s instead of 2 s; the run has no more",)
    assert found.end - found.begin < 2 * RATE


def test_notes_of_a_segment_stay_with_its_recording() -> None:
    library = ToyLibrary()
    scenario = replace(SCENARIO, online=(Stage("C1", "low", level=10, seconds=9),))
    [piece] = scenario.stream_segments(library, "wear")
    [note] = piece.recording.notes
    assert "instead of 9 s" in note


def test_a_single_condition_may_be_written_as_a_list(tmp_path: Path) -> None:
    text = builtin_scenarios()["gearbox"].read_text()
    path = tmp_path / "mine.toml"
    path.write_text(text.replace("[condition]", "[[conditions]]").replace("level = 20", "level = { torque = 20 }"))
    mine, gearbox = Scenario.load(path), Scenario.load("gearbox")
    assert mine.conditions == gearbox.conditions
    assert mine.online[0].levels(mine.conditions) == gearbox.online[0].levels(gearbox.conditions)


def test_segments_are_cut_by_all_named_conditions() -> None:
    segments = BOTH.stream_segments(TwoConditions(), "wear")
    assert [piece.stage for piece in segments] == [0, 1, 1, 2]
    means = [[piece.recording.conditions[name].mean() for name in ("torque", "speed")] for piece in segments]
    np.testing.assert_allclose(means, [[20, 800], [15, 800], [15, 800], [5, 300]], atol=0.1)


@pytest.mark.parametrize(
    ("level", "seconds"), [({"torque": 10}, 3), ({"speed": 300}, 2), ({"torque": 10, "speed": 300}, 1)]
)
def test_an_interval_is_at_all_named_levels(level: dict[str, float], seconds: float) -> None:
    """The torque is constant from 1 s to 4 s, the speed is 300 rpm until 2 s."""
    recording = ToyLibrary().get("health", "low", severity="H", specimen=1)
    speed = np.where(np.arange(recording.samples) < 2 * RATE, 300, 800).astype(np.float32)
    both = replace(recording, conditions={**recording.conditions, "speed": speed})
    found = find_segment(both, BOTH.conditions, SegmentSelection("C", "low", level=level))
    assert (found.end - found.begin) / RATE == pytest.approx(seconds, abs=0.15)


def test_error_for_an_absent_combination_gives_the_measured_ranges() -> None:
    recording = TwoConditions().get("health", "low", severity="H", specimen=1)
    with pytest.raises(
        DataError,
        match=r"no interval at 10 Nm and 800 rpm for C9; measured torque goes from .* Nm, "
        r"measured speed goes from 300\.00 to 300\.00 rpm",
    ):
        find_segment(recording, BOTH.conditions, SegmentSelection("C9", "low", level={"torque": 10, "speed": 800}))
    with pytest.raises(DataError, match=r"no rise over 0 to 30 Nm for T9"):
        find_segment(recording, BOTH.conditions, SegmentSelection("T9", "low", ramp={"torque": (0, 30)}))


def test_every_condition_needs_a_trace() -> None:
    with pytest.raises(DataError, match="no trace of 'speed' to cut segments by; it has torque; replace it"):
        BOTH.training_segments(ToyLibrary())


def test_wrong_rate_is_refused() -> None:
    with pytest.raises(DataError, match="1000 Hz; scenario toy expects 500 Hz"):
        replace(SCENARIO, sample_rate=500.0).training_segments(ToyLibrary())


@pytest.mark.parametrize(
    "make",
    [
        lambda: SegmentSelection("T", "run"),
        lambda: SegmentSelection("T", "run", level=1, ramp=(0, 1)),
        lambda: SegmentSelection("T", "run", ramp=(2, 1)),
        lambda: SegmentSelection("T", "run", level=1, seconds=0),
        lambda: SegmentSelection("T", "run", also=("run",), level=1),
        lambda: SegmentSelection("T", "run", level=1, part=(0.5, 0.2)),
        lambda: bind(Scenario, {**as_table(SCENARIO), "severities": {"wear": "X"}}, "test"),
        lambda: replace(SCENARIO, severities={"rust": "L"}),
        lambda: Stage("C", "run", level=1, fault_from=2),
        lambda: Condition("torque", "Nm", 5, 5, 1),
        lambda: SegmentSelection("T", "run", ramp={"torque": (2, 1)}),
        lambda: replace(SCENARIO, conditions=()),
        lambda: replace(SCENARIO, conditions=(CONDITION, CONDITION)),
        lambda: replace(SCENARIO, conditions=(CONDITION, SPEED)),
        lambda: replace(BOTH, offline=(SegmentSelection("T", "run", level={"load": 1}),)),
        lambda: replace(BOTH, offline=(SegmentSelection("T", "run", level={}),)),
        lambda: replace(BOTH, offline=(SegmentSelection("T", "run", ramp={"torque": (0, 1), "speed": (0, 1)}),)),
        lambda: replace(SCENARIO, faults=("wear", "wear")),
        lambda: replace(SCENARIO, online=()),
    ],
)
def test_invalid_settings_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(ConfigError):
        make()


def test_error_for_a_number_lists_the_conditions() -> None:
    with pytest.raises(ConfigError, match=r"T2: level 10; expected a table with one or more of torque, speed"):
        replace(BOTH, offline=(SegmentSelection("T2", "low", level=10),))
    with pytest.raises(ConfigError, match=r"T2: level of load; the conditions are torque, speed"):
        replace(BOTH, offline=(SegmentSelection("T2", "low", level={"load": 10}),))
