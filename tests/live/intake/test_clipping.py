from __future__ import annotations

import numpy as np
import pytest
import torch

from cgsa.errors import BundleError
from cgsa.live.intake.clipping import ClippingLimits

Side = tuple[list[float], list[int]]


def reached(limits: ClippingLimits, top: Side, bottom: Side, clipped: list[bool]) -> list[bool]:
    """Update one channel with the extremes of windows and the number of samples at each."""
    sides = [(np.array([values]), np.array([counts])) for values, counts in (top, bottom)]
    return [bool(one) for one in limits.update(sides[0], sides[1], np.array([clipped]))[0]]


def test_a_clipped_window_reveals_others_before_and_after_it() -> None:
    limits = ClippingLimits(1)
    below = ([-2.0, -3.0, -2.5], [1, 1, 1])
    assert reached(limits, ([5.0, 5.0, 4.0], [1, 4, 1]), below, [False, True, False]) == [True, True, False]
    assert reached(limits, ([4.9, 5.0, 1.0], [1, 1, 1]), below, [False] * 3) == [False, True, False]


def test_a_sample_beyond_a_limit_removes_the_limit() -> None:
    limits = ClippingLimits(1)
    below = ([-2.0], [1])
    assert reached(limits, ([5.0], [4]), below, [True]) == [True]
    assert reached(limits, ([5.1], [1]), below, [False]) == [False]
    assert reached(limits, ([5.0], [1]), below, [False]) == [False]


def test_there_are_lower_limits_too_and_a_single_sample_sets_none() -> None:
    limits = ClippingLimits(1)
    assert reached(limits, ([5.0], [1]), ([-4.0], [9]), [True]) == [True]
    assert reached(limits, ([5.0], [1]), ([-3.0], [1]), [False]) == [False]
    assert reached(limits, ([1.0], [1]), ([-4.0], [1]), [False]) == [True]


def test_infinite_values_set_no_limit() -> None:
    limits = ClippingLimits(1)
    assert reached(limits, ([-np.inf], [8]), ([np.inf], [8]), [True]) == [False]


def test_limits_resume_from_their_state() -> None:
    limits, other = ClippingLimits(1), ClippingLimits(1)
    reached(limits, ([5.0], [4]), ([-2.0], [1]), [True])
    other.load_state_dict(limits.state_dict())
    assert reached(other, ([5.0], [1]), ([-2.0], [1]), [False]) == [True]
    with pytest.raises(BundleError, match="machine with other channels"):
        ClippingLimits(2).load_state_dict(limits.state_dict())
    with pytest.raises(BundleError, match="expected"):
        other.load_state_dict({"rails": torch.zeros(2, 1)})
