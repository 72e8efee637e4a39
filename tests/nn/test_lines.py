from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.nn.lines import REACH, changed_lines


def spectrum() -> torch.Tensor:
    return 0.2 * torch.randn(2, 200, generator=torch.Generator().manual_seed(0))


@given(st.integers(5, 190), st.integers(0, 1), st.sampled_from((3.0, -3.0)))
def test_a_line_that_rose_or_fell_is_named_first(line: int, channel: int, change: float) -> None:
    healthy = spectrum()
    healthy[channel, line] += 4 if change < 0 else 0
    now = healthy.clone()
    now[channel, line] += change
    found = changed_lines(now, healthy, 3)
    assert (found[0].channel, found[0].line) == (channel, line)
    assert (found[0].decibels > 0) == (change > 0)


def test_a_peak_that_moved_a_little_is_no_change() -> None:
    healthy, now = spectrum(), spectrum()
    healthy[0, 50] = now[0, 50 + REACH] = 6.0
    assert changed_lines(now, healthy, 5) == []
    now[0, 50 + REACH], now[0, 51 + REACH] = 0.0, 6.0
    assert {one.line for one in changed_lines(now, healthy, 5)} == {50, 51 + REACH}


def test_small_changes_and_equal_spectra_name_nothing() -> None:
    healthy = spectrum()
    assert changed_lines(healthy, healthy, 5) == []
    assert changed_lines(healthy + 0.5, healthy, 5) == []


def test_the_largest_amplitude_comes_first_relative_to_the_level_of_its_channel() -> None:
    healthy = spectrum()
    healthy[1] -= 8.0
    now = healthy.clone()
    now[0, 20] += 4.0
    now[1, 30] += 5.0
    assert [(one.channel, one.line) for one in changed_lines(now, healthy, 2)] == [(1, 30), (0, 20)]
