from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.data.windows import Windows, WindowSpec
from cgsa.errors import DataError
from cgsa.nn.change import GENERAL, ChangeModel
from cgsa.offline.healthy_distance import LIMIT_SHARE, HeldOutDistances, covered_by_limit, farthest, shares_samples
from cgsa.offline.healthy_only import choose_change_features, choose_change_window, fit_limits, train_healthy_only
from cgsa.offline.held_out import TrainingFeatures
from cgsa.offline.parts import held_out_parts
from cgsa.workflow import training_windows
from tests.machines import HEALTHY_PROFILE, SCENARIO, ToyLibrary, healthy_bundle, noise_recording, segment


def test_features_suit_the_sensor() -> None:
    fast = choose_change_features(12_800.0, 3, WindowSpec(12_800, 512))
    assert [one.name for one in fast.features[:3]] == ["spectrum 1024", "spectrum 512", "spectrum 256"]
    assert {one.kind for one in fast.features[3:]} == {"cross_spectrum"}
    assert [one.name for one in fast.lines] == ["spectrum 12800", "envelope 1024"]
    slow = choose_change_features(99.0, 1, WindowSpec(256, 32))
    assert {one.kind for one in (*slow.features, *slow.lines)} == {"spectrum"}


def test_windows_overlap_by_three_quarters_and_share_their_frames() -> None:
    assert choose_change_window(WindowSpec(12_800, 512)) == WindowSpec(12_800, 3072)
    assert choose_change_window(WindowSpec(256, 32)) == WindowSpec(256, 64)
    assert choose_change_window(WindowSpec(256, 128)) == WindowSpec(256, 128)


def test_the_farthest_held_out_recording_sets_the_limit() -> None:
    model = ChangeModel(choose_change_features(1000.0, 2, WindowSpec(256, 32)), 2, WindowSpec(256, 32))
    values = torch.linspace(0, 1, 101)
    # Few windows of a recording far away count as much as many of one nearby.
    fit_limits(model, [HeldOutDistances((values - 3, values - 3), (), ()), HeldOutDistances((values,), (), ())])
    assert model.limits.tolist() == pytest.approx([0.99] * 3)
    assert model.widths.tolist() == pytest.approx([0.99 - float(torch.cat([values - 3] * 2 + [values]).median())] * 3)
    # Any conditions include the same ones, so that their limit is never lower.
    fit_limits(model, [HeldOutDistances((values,), (values - 5,), (values - 2,))])
    assert model.limits.tolist() == pytest.approx([0.99, -1.01, -1.01])


@given(st.lists(st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=9), min_size=1, max_size=5))
def test_a_group_that_is_added_never_lowers_the_limit(groups: list[list[float]]) -> None:
    tensors = [torch.tensor(group, dtype=torch.float64) for group in groups]
    found = float(farthest(tensors))
    assert found == pytest.approx(max(float(np.quantile(group, LIMIT_SHARE)) for group in groups))
    assert found >= float(farthest(tensors[:1]))


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 20), st.booleans()), min_size=1, max_size=12))
def test_no_sample_is_on_both_sides_of_a_held_out_part(windows: list[tuple[int, int, bool]]) -> None:
    recordings, begins, held_out = map(torch.tensor, zip(*windows, strict=True))
    none, spans = torch.zeros_like(recordings), torch.stack([begins, begins + 5], dim=1) / 25
    nothing = torch.zeros(len(windows), 0)
    features = TrainingFeatures([], none, recordings, none, nothing, spans, nothing)
    expected = [
        any(recording == other and abs(begin - at) < 5 for other, at, out in windows if out)
        for recording, begin, _ in windows
    ]
    assert shares_samples(features, held_out).tolist() == expected


def test_a_whole_level_of_several_points_is_assessed_but_sets_no_limit() -> None:
    levels = [(torque, speed) for torque in (1.0, 2.0) for speed in (10.0, 20.0, 30.0)]
    conditions, none = torch.tensor(levels, dtype=torch.float64), torch.zeros(len(levels), dtype=torch.int64)
    spans, means = torch.zeros(len(levels), 2), torch.zeros(len(levels), 0)
    features = TrainingFeatures([], none, torch.arange(len(levels)), none, conditions, spans, means)
    covered = [covered_by_limit(part, features) for part in held_out_parts(conditions, features.machines)]
    # Two torques and three speeds span several points each; there are six points.
    assert covered == [False] * 5 + [True] * 6


def test_the_same_windows_give_the_same_model() -> None:
    windows = training_windows(SCENARIO, HEALTHY_PROFILE, ToyLibrary())
    again = train_healthy_only(windows, replace(healthy_bundle().manifest, healthy_only=None))
    state, expected = again.model.state_dict(), healthy_bundle().model.state_dict()
    assert all(torch.equal(state[name], expected[name]) for name in expected)
    assert again.manifest == healthy_bundle().manifest


def test_training_holds_conditions_and_specimens_out() -> None:
    found = healthy_bundle().manifest.healthy_only
    assert found is not None
    names = [one.name for one in found.results]
    assert any(name.startswith("torque") for name in names)
    assert {"specimen 1", "specimen 2"} <= set(names)
    assert found.false_share is not None
    assert found.worst is not None
    assert found.worst.false_share >= found.false_share
    assert torch.isfinite(healthy_bundle().require_change().limits[GENERAL])


def test_faulty_windows_and_too_little_are_refused() -> None:
    manifest = healthy_bundle().manifest
    windows = Windows([segment(noise_recording(2000), label=1)], manifest.window, conditions=("torque",))
    with pytest.raises(DataError, match="some training windows are faulty"):
        train_healthy_only(windows, manifest)
    short = noise_recording(manifest.window.length)
    with pytest.raises(DataError, match="too little to hold any of it out"):
        train_healthy_only(Windows([segment(short)], manifest.window, conditions=("torque",)), manifest)
    with pytest.raises(DataError, match="describes no model of the healthy machine"):
        train_healthy_only(windows, replace(manifest, change=None))
