from __future__ import annotations

from dataclasses import replace
from math import log

import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.online.healthy_start import (
    FAR,
    MAX_ROWS,
    MOVING_LEVEL,
    OUTSIDE,
    STANDSTILL,
    ObservedRows,
    StartLimits,
    add_thinned,
    common_flaw,
    level_moves,
    window_levels,
)
from tests.machines import ensemble_bundle

CPU = torch.device("cpu")


def rows(*, levels: list[list[float]], distances: list[float]) -> ObservedRows:
    return ObservedRows(torch.zeros(len(levels), 2, 3), torch.tensor(levels), torch.tensor(distances))


def numbered(begin: int, end: int) -> ObservedRows:
    """Rows whose distances are their numbers."""
    number = torch.arange(begin, end, dtype=torch.float32)
    return ObservedRows(number[:, None, None].expand(-1, 1, 1), number[:, None], number)


@given(st.lists(st.integers(0, 3 * MAX_ROWS), max_size=6))
def test_a_span_keeps_every_nth_window_however_they_come(sizes: list[int]) -> None:
    kept, count = ObservedRows.empty(1, 1, 1, CPU), 0
    for size in sizes:
        kept = add_thinned(kept, count, numbered(count, count + size))
        count += size
    stride = 1
    while len(range(0, count, stride)) > MAX_ROWS:
        stride *= 2
    for tensor in kept.tensors().values():
        assert tensor.flatten().tolist() == list(range(0, count, stride))


def test_standstill_is_every_channel_far_below_the_quietest_recording() -> None:
    limits = StartLimits(torch.tensor([0.0, 1.0]), known=0.0)
    low = log(0.3)
    seen = rows(
        levels=[[0.0, 1.0], [low, 1.0 + low], [low, 1.0], [5.0, 5.0], [low, low]],
        distances=[log(0.9 * FAR), 9.0, log(1.1 * FAR), -3.0, -3.0],
    )
    assert limits.flaws(seen).tolist() == [0, STANDSTILL, OUTSIDE, 0, STANDSTILL]
    assert StartLimits(None, None).flaws(seen).tolist() == [0] * 5


def test_limits_are_those_of_the_model() -> None:
    manifest = ensemble_bundle().manifest
    limits = StartLimits.of(manifest, CPU)
    assert limits.lowest is not None
    assert manifest.lowest_levels is not None
    assert manifest.calibration is not None
    torch.testing.assert_close(limits.lowest.exp(), torch.tensor(manifest.lowest_levels))
    assert limits.known == log(manifest.calibration.distance)
    older = StartLimits.of(replace(manifest, calibration=None, lowest_levels=None), CPU)
    assert (older.lowest, older.known) == (None, None)


def test_a_few_flaws_are_tolerated_and_the_most_frequent_one_counts() -> None:
    assert common_flaw(torch.tensor([0] * 8 + [1, 2])) == 0
    assert common_flaw(torch.tensor([0] * 7 + [1, 2, 2])) == OUTSIDE
    assert common_flaw(torch.tensor([1])) == STANDSTILL


def test_rows_resemble_training_if_nearly_all_are_known() -> None:
    limits = StartLimits(None, known=0.0)
    assert limits.resembles_training(rows(levels=[[0.0]] * 5, distances=[-1.0] * 4 + [1.0]))
    assert not limits.resembles_training(rows(levels=[[0.0]] * 5, distances=[-1.0] * 3 + [1.0] * 2))
    assert not StartLimits(None, None).resembles_training(rows(levels=[[0.0]], distances=[-1.0]))


@given(st.integers(1, 40), st.sampled_from([0.9, 1.1]))
def test_levels_move_if_quarters_differ(per_quarter: int, factor: float) -> None:
    for quarter in range(4):
        levels = torch.zeros(4 * per_quarter, 2)
        levels[quarter * per_quarter : (quarter + 1) * per_quarter, 1] = factor * MOVING_LEVEL
        seen = ObservedRows(torch.zeros(len(levels), 1, 1), levels, torch.zeros(len(levels)))
        assert level_moves(seen) == (factor > 1)


def test_levels_of_windows_are_standard_deviations() -> None:
    x = torch.tensor([[[1.0, -1.0, 1.0, -1.0], [7.0, 7.0, 7.0, 7.0]], [[5.0, 3.0, 5.0, 3.0], [0.0, 4.0, 0.0, 4.0]]])
    found = window_levels(x)
    torch.testing.assert_close(found[:, 0].exp(), torch.ones(2))
    assert float(found[1, 1].exp()) == 2.0
    assert float(found[0, 1]) < -60
