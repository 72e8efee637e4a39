from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cgsa.nn.own_start import PASSAGE, OwnStart, OwnStartConfig, with_unchanged


def comparison() -> OwnStart:
    own_start = OwnStart(OwnStartConfig((0, 2)), [2, 5, 3])
    own_start.changed.fill_(math.log(4.0))
    return own_start


def test_the_chosen_kinds_are_compared() -> None:
    kinds = [torch.full((4, size), float(size)) for size in (2, 5, 3)]
    rows = comparison().rows(kinds)
    assert comparison().feature_count == 5
    assert rows.tolist() == [[2.0, 2.0, 3.0, 3.0, 3.0]] * 4


def test_the_nearest_start_counts() -> None:
    own_start, starts = comparison(), torch.stack([torch.zeros(5), torch.full((5,), 10.0)])
    rows = torch.tensor([[4.0] * 5, [9.0] * 5])
    distance = own_start.log_distance(rows, starts)
    torch.testing.assert_close(distance.exp(), torch.tensor([4.0, 1.0]))
    # The first is exactly at the limit for healthy machines.
    torch.testing.assert_close(own_start.change(distance), torch.tensor([1.0, 0.25]))


def literal(probabilities: Tensor, distance: float, limit: float) -> list[float]:
    found = probabilities.tolist()
    likely = found.index(max(found))
    unchanged = min(1.0, max(0.0, (limit - distance) / PASSAGE))
    exchanged = list(found)
    exchanged[0], exchanged[likely] = found[likely], found[0]
    return [unchanged * new + (1 - unchanged) * old for new, old in zip(exchanged, found, strict=True)]


@given(
    shares=st.lists(st.floats(0.01, 1.0), min_size=2, max_size=6),
    distance=st.floats(-3, 3),
    limit=st.floats(-1, 1),
)
def test_unchanged_windows_count_as_healthy(shares: list[float], distance: float, limit: float) -> None:
    given_probabilities = torch.tensor(shares, dtype=torch.float64) / sum(shares)
    [found] = with_unchanged(
        given_probabilities[None],
        torch.tensor([distance], dtype=torch.float64),
        torch.tensor(limit, dtype=torch.float64),
    )
    expected = torch.tensor(literal(given_probabilities, distance, limit), dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    # Health only gains, and never becomes surer than the classifiers were; what they called healthy stays as it was.
    assert given_probabilities[0] - 1e-12 <= found[0] <= given_probabilities.max() + 1e-12
    if given_probabilities.argmax() == 0 or distance >= limit:
        assert found.tolist() == given_probabilities.tolist()
    if distance <= limit - PASSAGE:
        assert found[0] == pytest.approx(float(given_probabilities.max()))
