from __future__ import annotations

import pytest
import torch

from cgsa.data.windows import Windows
from cgsa.offline.folds import condition_folds, condition_levels, latest_fold, near_others
from tests.machines import training_windows


def with_conditions(values: torch.Tensor) -> Windows:
    windows = training_windows(step=64)
    some = windows.subset(torch.arange(len(values)))
    some.conditions = values[:, None]
    return some


def test_each_held_value_is_a_level() -> None:
    noise = 0.05 * torch.randn(60, generator=torch.Generator().manual_seed(0))
    values = torch.tensor([30.0, 10.0, 20.0]).repeat_interleave(20) + noise
    levels = condition_levels(values)
    assert levels.tolist() == [2] * 20 + [0] * 20 + [1] * 20


def test_a_continuous_change_is_divided_into_equal_parts_of_its_range() -> None:
    levels = condition_levels(torch.linspace(0, 10, 100))
    assert torch.bincount(levels).tolist() == pytest.approx([20] * 5, abs=1)
    # Even if one value was held for long.
    held = torch.cat([torch.linspace(0, 10, 50), 5 + 0.1 * torch.linspace(-1, 1, 200)])
    assert torch.bincount(condition_levels(held)).tolist() == pytest.approx([10, 10, 210, 10, 10], abs=1)
    # A gap in a continuous change does not make two levels.
    gap = torch.cat([torch.linspace(0, 5, 50), torch.linspace(6, 10, 50)])
    assert int(condition_levels(gap).max()) == 4


def test_levels_of_each_condition_are_held_out_in_turn() -> None:
    windows = with_conditions(torch.zeros(12))
    speed, load = torch.tensor([30.0, 10.0, 20.0]).repeat_interleave(4), torch.tensor([0.0, 5.0]).repeat(6)
    windows.conditions = torch.stack([speed, torch.full((12,), 7.0), load], dim=1)
    levels = condition_folds(windows, ["speed", "torque", "load"])
    assert [(level.name, level.interior) for level in levels] == [
        ("level 1 of 3 of speed", False),
        ("level 2 of 3 of speed", True),
        ("level 3 of 3 of speed", False),
        ("level 1 of 2 of load", False),
        ("level 2 of 2 of load", False),
    ]
    members = [level.held_out.nonzero().squeeze(1).tolist() for level in levels]
    assert members == [[4, 5, 6, 7], [8, 9, 10, 11], [0, 1, 2, 3], [0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 11]]
    windows.conditions = windows.conditions[:, :1]
    assert [level.name for level in condition_folds(windows, ["speed"])] == [f"level {n} of 3" for n in (1, 2, 3)]


def test_the_latest_fold_shares_no_sample_with_the_rest() -> None:
    windows = training_windows(step=16)
    level = latest_fold(windows)
    length = windows.spec.length
    for segment in set(windows.segments.tolist()):
        own = windows.segments == segment
        begins = windows.starts[own]
        last, rest = begins[level.held_out[own]], begins[level.rest[own]]
        assert len(last)
        assert int(rest.max()) + length <= int(last.min())
        assert int(last.min()) >= int(begins.min()) + 0.75 * (int(begins.max()) + length - int(begins.min()))


def test_levels_far_from_the_others_are_marked() -> None:
    assert near_others([600, 1800, 3000]) == [False, True, False]
    assert near_others([20, 30, 40, 50]) == [True, True, True, True]
    assert near_others([0, 1, 2, 3, 30]) == [True, True, True, True, False]
    assert near_others([1, 9]) == [True, True]
