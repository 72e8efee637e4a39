from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from cgsa.data.scenario import Condition
from cgsa.nn.change import HealthyMetrics
from cgsa.nn.ensemble import combine
from cgsa.nn.own_start import OwnStart, OwnStartConfig
from cgsa.nn.reference_shift import needed_shift
from cgsa.offline.held_out import HeldOut, StartDistances, TrainingFeatures
from cgsa.offline.judging import count_states, faults_from_start, judge_parts, operating_points, part_name
from cgsa.offline.parts import Part
from tests.machines import CONDITION, SPEED, ensemble_manifest

MANIFEST = replace(ensemble_manifest(), classes=("health", "wear"), conditions=(CONDITION, SPEED))
"""Windows of 128 samples at 1 kHz, 16 samples apart."""
POOL = torch.tensor([0.5, 0.5])


def features(rows: list[tuple[int, int, float, int]], each: int = 8, step: int = 32) -> TrainingFeatures:
    """Recordings (label, specimen, torque, recording), each with windows at this step."""
    begin = step * torch.arange(each).double()
    whole = float(begin[-1] + 128)
    return TrainingFeatures(
        (),
        torch.tensor([row[0] for row in rows]).repeat_interleave(each),
        torch.tensor([row[3] for row in rows]).repeat_interleave(each),
        torch.tensor([row[1] for row in rows]).repeat_interleave(each),
        torch.tensor([[row[2], 300.0] for row in rows], dtype=torch.float64).repeat_interleave(each, dim=0),
        (torch.stack([begin, begin + 128], dim=1) / whole).repeat(len(rows), 1),
        torch.zeros(len(rows) * each, 2),
    )


def held_out(windows: TrainingFeatures, scores: Tensor, part: Part | None = None) -> HeldOut:
    count = len(windows)
    return HeldOut(
        part or Part("specimen", specimen=1),
        scores,
        torch.zeros_like(scores),
        torch.tensor([[2.0, 0.0], [2.0, 0.0]]),
        torch.arange(count),
        windows,
        StartDistances(HealthyMetrics([2]), rows_of(windows)),
    )


def rows_of(windows: TrainingFeatures) -> Tensor:
    """Features by class and specimen: a fault moves the first, another specimen the second."""
    return torch.stack([2.0 * windows.labels, 10.0 * windows.machines], dim=1)


def distances(windows: TrainingFeatures) -> Tensor:
    return torch.arange(len(windows)).double() + 1


def random_scores(count: int) -> Tensor:
    return torch.randn(count, 2, 2, generator=torch.Generator().manual_seed(3))


def test_a_stream_is_one_specimen_at_one_operating_point_healthy_first() -> None:
    # Recorded in any order: wear before health, two specimens, two loads; specimen 2 was never healthy at 10 Nm.
    windows = features([(1, 1, 0.0, 0), (0, 1, 0.0, 1), (0, 2, 0.0, 2), (1, 2, 0.0, 3), (1, 2, 10.0, 4)])
    scores = random_scores(len(windows))
    [judged] = judge_parts([held_out(windows, scores)], [POOL], windows, distances(windows), MANIFEST)
    assert [stream.labels.tolist() for stream in judged.streams] == [[0] * 8 + [1] * 8, [0] * 8 + [1] * 8, [1] * 8]
    assert [stream.step for stream in judged.streams] == [32] * 3
    # Half of the short healthy recording is the reference.
    assert [stream.reference for stream in judged.streams] == [4, 4, 0]
    assert judged.streams[0].distance.tolist() == [*range(9, 17), *range(1, 9)]
    healthy, worn = scores[8:16], scores[:8]
    shift = needed_shift(healthy[:4], torch.tensor([[2.0, 0.0], [2.0, 0.0]]), POOL)
    expected = torch.softmax(combine(torch.cat([healthy, worn]) - shift, POOL), dim=1)
    torch.testing.assert_close(judged.streams[0].probabilities, expected)
    alone = torch.softmax(combine(scores[32:], POOL), dim=1)
    torch.testing.assert_close(judged.streams[2].probabilities, alone)
    predicted = torch.cat([stream.probabilities.argmax(dim=1) for stream in judged.streams])
    labels = torch.cat([stream.labels for stream in judged.streams])
    assert judged.result.confusion == tuple(
        tuple(int(((labels == a) & (predicted == b)).sum()) for b in range(2)) for a in range(2)
    )
    assert judged.result.name == "specimen 1"


def test_a_long_start_is_observed_for_a_second() -> None:
    windows = features([(0, 1, 0.0, 0), (1, 1, 0.0, 1)], each=200)
    [judged] = judge_parts([held_out(windows, random_scores(400))], [POOL], windows, distances(windows), MANIFEST)
    assert judged.streams[0].reference == round(1000 / 32)


def test_a_recording_with_one_window_has_no_step() -> None:
    windows = features([(0, 1, 0.0, 0), (1, 1, 0.0, 1)], each=1)
    [judged] = judge_parts([held_out(windows, random_scores(2))], [POOL], windows, distances(windows), MANIFEST)
    assert judged.streams[0].step == 128


def test_levels_are_those_of_the_whole_training() -> None:
    """A part at one level has a little noise, which is no level of its own."""
    windows = features([(0, 1, 5.0, 0), (1, 1, 5.01, 1), (0, 1, 10.0, 2), (1, 1, 0.0, 3)])
    assert len(set(operating_points(windows).tolist())) == 3
    index = torch.arange(16)
    one = replace(held_out(windows.subset(index), random_scores(16)), index=index)
    [judged] = judge_parts([one], [POOL], windows, distances(windows), MANIFEST)
    assert [stream.labels.tolist() for stream in judged.streams] == [[0] * 8 + [1] * 8]
    without = replace(windows, conditions=windows.conditions[:, :0])
    assert set(operating_points(without).tolist()) == {0}


def test_parts_have_names_with_quantity_level_and_unit() -> None:
    conditions = [Condition("speed_rpm", "rpm", 600, 3000, 1), Condition("torque", "Nm", 0, 20, 0.5)]
    for part, expected in (
        (Part("level", ((0, 1200.0, 1200.0),)), "speed 1200 rpm"),
        (Part("level", ((1, 0.0, 4.0),)), "torque 0 to 4 Nm"),
        (Part("combination", ((0, 600.0, 600.0), (1, 9.9, 10.1))), "speed 600 rpm, torque 10 Nm"),
        (Part("specimen", specimen=3), "specimen 3"),
        (Part("latest"), "last quarter of every recording"),
    ):
        assert part_name(part, conditions) == expected


@pytest.mark.parametrize("many", [2, 3])
def test_states_are_counted_by_class(many: int) -> None:
    labels, states = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([0, 1, 1, 1, many - 1])
    found = count_states(labels, states, classes=2, many=many)
    assert found == ((1, 1, 0)[:many], (0, 3) if many == 2 else (0, 2, 1))


def test_windows_near_the_healthy_start_of_their_machine_count_as_healthy() -> None:
    windows = features([(0, 1, 0.0, 0), (1, 1, 0.0, 1), (0, 2, 0.0, 2), (1, 2, 0.0, 3)])
    wrong = torch.zeros(len(windows), 2, 2)
    wrong[..., 1] = 4.0
    own_start = OwnStart(OwnStartConfig((0,)), [2])
    own_start.unchanged.fill_(-1.0)
    own_start.changed.fill_(0.0)
    one = held_out(windows, wrong)
    [judged] = judge_parts([one], [POOL], windows, distances(windows), MANIFEST, own_start=own_start)
    for stream in judged.streams:
        assert (stream.probabilities[:8, 0] > 0.5).all()
        assert (stream.change[:8] < 0.01).all()
        # The metric of the fault is its difference of 2 over the root of two features.
        torch.testing.assert_close(stream.change[8:], torch.full((8,), 2**0.5))
    faults = faults_from_start([one], windows, MANIFEST)
    assert [len(one) for one in faults] == [8, 8]
    torch.testing.assert_close(torch.cat(faults).exp(), torch.full((16,), 2**0.5))
