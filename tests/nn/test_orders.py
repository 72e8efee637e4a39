from __future__ import annotations

from math import isnan

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.errors import ConfigError
from cgsa.nn.orders import MOST_RATIO, SpeedConfig, stretch

BINS = 64


def lines_at(*frequencies: int) -> torch.Tensor:
    """Two channels with lines, the first line of a spectrum being frequency 1."""
    features = torch.zeros(1, 2, BINS)
    features[0, :, [one - 1 for one in frequencies]] = 1.0
    return features.flatten(1)


@pytest.mark.parametrize(("factor", "expected"), [(0.5, (4, 10)), (2.0, (16, 40)), (1.0, (8, 20))])
def test_a_faster_machine_has_its_lines_at_higher_frequencies(factor: float, expected: tuple[int, ...]) -> None:
    moved = stretch(lines_at(8, 20), BINS, torch.tensor([factor])).reshape(2, BINS)
    for channel in moved:
        assert [int(one) + 1 for one in (channel == 1.0).nonzero().squeeze(1)] == list(expected)


@given(st.integers(0, 1000), st.integers(8, 40), st.lists(st.floats(0.4, 2.5), min_size=1, max_size=4))
def test_stretching_against_a_loop(seed: int, bins: int, factors: list[float]) -> None:
    features = np.random.default_rng(seed).normal(size=(len(factors), 2, bins)).astype(np.float32)
    chosen = torch.tensor(factors, dtype=torch.float64)
    found = stretch(torch.from_numpy(features).flatten(1), bins, chosen).reshape(-1, 2, bins).numpy()
    places = np.arange(1, bins + 1)
    for window, factor in enumerate(factors):
        for channel in range(2):
            own = features[window, channel]
            noise = own[-max(1, bins // 8) :].mean()
            for line in places:
                source = line / factor
                expected = np.interp(source, places, own) if source <= bins else noise
                assert found[window, channel, line - 1] == pytest.approx(expected, abs=1e-4)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=5))
def test_factors_are_ratios_of_speeds_where_these_are_usable(speeds: list[float]) -> None:
    conditions = torch.tensor([[7.0, speed] for speed in speeds], dtype=torch.float64)
    found = SpeedConfig(1, 1500.0).factors(conditions).tolist()
    for speed, factor in zip(speeds, found, strict=True):
        usable = 1500 / MOST_RATIO <= speed <= 1500 * MOST_RATIO
        assert factor == pytest.approx(1500 / speed) if usable else isnan(factor)


def test_a_line_that_follows_the_speed_is_at_one_order() -> None:
    speeds = torch.tensor([[600.0], [1200.0]], dtype=torch.float64)
    envelopes = torch.cat([lines_at(10), lines_at(20)])
    moved = stretch(envelopes, BINS, SpeedConfig(0, 1200.0).factors(speeds)).reshape(2, 2, BINS)
    assert moved[:, 0].argmax(dim=1).tolist() == [19, 19]


@pytest.mark.parametrize(("condition", "reference"), [(-1, 1.0), (0, 0.0), (0, float("inf")), (0, float("nan"))])
def test_impossible_speeds_are_refused(condition: int, reference: float) -> None:
    with pytest.raises(ConfigError, match="expected 0 or more, and a positive number"):
        SpeedConfig(condition, reference)
