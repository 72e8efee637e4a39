from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from cgsa.data.windows import Windows, WindowSpec
from cgsa.errors import DataError
from cgsa.nn.change import GENERAL, ChangeModel
from cgsa.offline.healthy_only import HeldOutDistances, choose_change_features, fit_limits, train_healthy_only
from cgsa.workflow import training_windows
from tests.machines import HEALTHY_PROFILE, SCENARIO, ToyLibrary, healthy_bundle, noise_recording, segment


def test_features_suit_the_sensor() -> None:
    fast = choose_change_features(12_800.0, 3, WindowSpec(12_800, 512))
    assert [one.name for one in fast.features[:3]] == ["spectrum 1024", "spectrum 512", "spectrum 256"]
    assert {one.kind for one in fast.features[3:]} == {"cross_spectrum"}
    assert [one.name for one in fast.lines] == ["spectrum 12800", "envelope 1024"]
    slow = choose_change_features(99.0, 1, WindowSpec(256, 32))
    assert {one.kind for one in (*slow.features, *slow.lines)} == {"spectrum"}


def test_limits_leave_a_hundredth_of_the_held_out_windows_outside() -> None:
    model = ChangeModel(choose_change_features(1000.0, 2, WindowSpec(256, 32)), 2, WindowSpec(256, 32))
    values = torch.linspace(0, 1, 101)
    fit_limits(model, [HeldOutDistances(values, values[:0], values[:0])])
    assert model.limits.tolist() == pytest.approx([0.99] * 3)
    assert model.widths.tolist() == pytest.approx([0.49] * 3)
    # Any conditions include the same ones, so that their limit is never lower.
    fit_limits(model, [HeldOutDistances(values, values - 5, values - 2)])
    assert model.limits.tolist() == pytest.approx([0.99, -1.01, -1.01])


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
