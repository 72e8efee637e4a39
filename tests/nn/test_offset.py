from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cgsa.errors import ConfigError
from cgsa.nn.known import UNLIKE, KnownCheck, KnownConfig
from cgsa.nn.offset import MAX_POINTS, UNLIKE_OFFSET, OffsetCheck, OffsetConfig, nearest

CONFIG = OffsetConfig((0, 2), 2, ("connected?", "swapped?"))


def check() -> OffsetCheck:
    """Gravity in the third channel, of which the first is the other that counts."""
    found = OffsetCheck(CONFIG)
    found.scale.fill_(10.0)
    found.genuine.copy_(torch.tensor([[0.0, 1.0], [0.1, 1.0]]))
    found.imitated.copy_(torch.stack([torch.zeros(2, 2), found.genuine.flip(1)]))
    found.usual.fill_(0.01)
    found.limits.fill_(2.0)
    found.farthest.fill_(0.5)
    return found


MEANS = torch.tensor([[0.0, 99.0, 10.0], [0.5, 0.0, 11.0], [0.0, 0.0, 0.0], [10.0, 0.0, 0.5], [0.0, 0.0, -30.0]])
EXPECTED = [None, None, "connected?", "swapped?", UNLIKE_OFFSET]


def test_an_offset_is_compared_with_training_and_with_every_imitation() -> None:
    ratio, named = check()(MEANS)
    assert [
        CONFIG.question(n) if r > 1 else None for r, n in zip(ratio.tolist(), named.tolist(), strict=True)
    ] == EXPECTED
    # Distance 1 from training, none from the imitation, of which the usual distance is counted.
    assert float(ratio[2]) == pytest.approx(1 / 0.01 / 2)
    assert float(ratio[4]) == pytest.approx(4 / 0.5, rel=1e-3)


@given(st.lists(st.tuples(st.floats(-20, 20), st.floats(-20, 20)), min_size=1, max_size=5))
def test_distances_are_those_of_the_nearest_points(rows: list[tuple[float, float]]) -> None:
    """The literal twin tries every point."""
    means, points = torch.tensor(rows), torch.randn(3, 30, 2, generator=torch.Generator().manual_seed(0))
    found = nearest(means, points)
    assert found.shape == (3, len(rows))
    for number, some in enumerate(points):
        for place, mean in enumerate(means):
            assert float(found[number, place]) == pytest.approx(min(literal(mean, point) for point in some), abs=1e-4)


def literal(one: Tensor, other: Tensor) -> float:
    return float((one.double() - other.double()).square().sum().sqrt())


def test_a_large_common_offset_costs_no_digits() -> None:
    points = torch.full((1, 100, 3), 1e3)
    assert float(nearest(torch.tensor([[1e3, 1e3, 1e3 + 0.01]]), points)) == pytest.approx(0.01, rel=0.01)


def test_the_question_of_an_offset_counts_before_that_of_a_spectrum() -> None:
    config = KnownConfig(("noise?",), offset=CONFIG)
    known = KnownCheck(config, inputs=1)
    known.weight.fill_(1.0)
    known.offset = check()
    features = torch.tensor([0.0, 9.0, 9.0, 0.0, 0.0])[:, None]
    distance, question = known([features], MEANS)
    assert [config.question(number) for number in question.tolist()] == [None, UNLIKE, *EXPECTED[2:]]
    assert float(distance[3]) == pytest.approx(float(check()(MEANS)[0][3]))
    # Raw windows have the same means.
    windows = MEANS[:, :, None].repeat(1, 1, 4)
    assert torch.equal(known.evidence([features], windows)["question"], question)


@pytest.mark.parametrize("channels", [(), (1, 0), (1, 1), (-1,)])
def test_channels_must_be_in_order(channels: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="expected different numbers, in order"):
        OffsetConfig(channels, 2, ())


@pytest.mark.parametrize("points", [0, MAX_POINTS + 1])
def test_too_few_or_too_many_points_are_refused(points: int) -> None:
    with pytest.raises(ConfigError, match=f"{points} offsets of training"):
        OffsetConfig((0,), points, ())
