from __future__ import annotations

import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cgsa.service.comparison import Difference, differences


def literal(before: list[float], after: list[float]) -> tuple[int, float | None, float]:
    changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    length = math.sqrt(math.fsum(a * a for a in before))
    far = math.sqrt(math.fsum((b - a) ** 2 for a, b in changed))
    return len(changed), far / length if length else None, max((abs(b - a) for a, b in changed), default=0.0)


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=20))
def test_differences_are_what_a_loop_finds(pairs: list[tuple[int, int]]) -> None:
    before, after = ([float(pair[side]) for pair in pairs] for side in (0, 1))
    found = differences({"x": torch.tensor(before)}, {"x": torch.tensor(after)})
    changed, relative, largest = literal(before, after)
    if not changed:
        assert found == ()
        return
    assert (found[0].changed, found[0].largest) == (changed, largest)
    if relative is None:
        assert found[0].relative is None
    else:
        assert found[0].relative is not None
        assert math.isclose(found[0].relative, relative)


def test_differences_are_sorted_by_size() -> None:
    before = {"small": torch.ones(4), "large": torch.ones(4), "same": torch.ones(2), "gone": torch.ones(3)}
    after = {"small": torch.ones(4) * 1.1, "large": torch.ones(4) * 3, "same": torch.ones(2), "new": torch.ones(2, 2)}
    found = differences(before, after)
    assert [one.name for one in found] == ["gone", "new", "large", "small"]
    assert found[1] == Difference("new", (2, 2), 4, None, None)


def test_nan_equals_itself() -> None:
    odd: Tensor = torch.tensor([float("nan"), float("inf"), 1.0])
    assert differences({"x": odd}, {"x": odd.clone()}) == ()
    changed = differences({"x": odd}, {"x": torch.tensor([float("nan"), float("inf"), 2.0])})
    assert (changed[0].changed, changed[0].largest) == (1, 1.0)


def test_large_integers_are_compared_exactly() -> None:
    found = differences({"rng": torch.tensor([2**60])}, {"rng": torch.tensor([2**60 + 1])})
    assert found[0].changed == 1
