from __future__ import annotations

import numpy as np
import pytest
import torch

from cgsa.errors import BundleError
from cgsa.live.intake.clipping import ClippingLimits

Side = tuple[list[float], list[int]]


def touched(rails: ClippingLimits, top: Side, bottom: Side, clipped: list[bool]) -> list[bool]:
    """One channel: the extremes of windows with how many samples are there."""
    sides = [(np.array([values]), np.array([counts])) for values, counts in (top, bottom)]
    return [bool(one) for one in rails.touched(sides[0], sides[1], np.array([clipped]))[0]]


def test_a_window_that_clips_gives_the_others_away_before_and_after_it() -> None:
    rails = ClippingLimits(1)
    below = ([-2.0, -3.0, -2.5], [1, 1, 1])
    assert touched(rails, ([5.0, 5.0, 4.0], [1, 4, 1]), below, [False, True, False]) == [True, True, False]
    assert touched(rails, ([4.9, 5.0, 1.0], [1, 1, 1]), below, [False] * 3) == [False, True, False]


def test_a_sample_beyond_a_rail_shows_that_it_is_none() -> None:
    rails = ClippingLimits(1)
    below = ([-2.0], [1])
    assert touched(rails, ([5.0], [4]), below, [True]) == [True]
    assert touched(rails, ([5.1], [1]), below, [False]) == [False]
    assert touched(rails, ([5.0], [1]), below, [False]) == [False]


def test_the_lower_end_is_a_rail_as_the_upper_one_is_and_a_lonely_sample_makes_none() -> None:
    rails = ClippingLimits(1)
    assert touched(rails, ([5.0], [1]), ([-4.0], [9]), [True]) == [True]
    assert touched(rails, ([5.0], [1]), ([-3.0], [1]), [False]) == [False]
    assert touched(rails, ([1.0], [1]), ([-4.0], [1]), [False]) == [True]


def test_what_is_not_finite_is_no_rail() -> None:
    rails = ClippingLimits(1)
    assert touched(rails, ([-np.inf], [8]), ([np.inf], [8]), [True]) == [False]


def test_rails_go_on_from_their_state() -> None:
    rails, other = ClippingLimits(1), ClippingLimits(1)
    touched(rails, ([5.0], [4]), ([-2.0], [1]), [True])
    other.load_state_dict(rails.state_dict())
    assert touched(other, ([5.0], [1]), ([-2.0], [1]), [False]) == [True]
    with pytest.raises(BundleError, match="machine with other channels"):
        ClippingLimits(2).load_state_dict(rails.state_dict())
    with pytest.raises(BundleError, match="expected"):
        other.load_state_dict({"rails": torch.zeros(2, 1)})
