from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.offline.stretch import COPIES, recordings_of_copies, stretch, with_stretched_copies

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


def test_copies_are_recordings_of_their_own() -> None:
    features, recordings = torch.randn(3, 2 * BINS), torch.tensor([0, 4, 4])
    copies, numbers = with_stretched_copies(features, BINS), recordings_of_copies(recordings)
    assert len(copies) == len(numbers) == 3 * (1 + COPIES)
    assert len(set(numbers.tolist())) == 2 * (1 + COPIES)
    torch.testing.assert_close(copies[:3], features)
    assert len({tuple(row.tolist()) for row in copies}) == len(copies)
