from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.live.sender_clock import BLOCKS, SenderClock


def told(skews: list[float]) -> list[str]:
    clock = SenderClock()
    found = [clock.observe(1000.0 + n + skew, 1000.0 + n) for n, skew in enumerate(skews)]
    return [text for text in found if text is not None]


@pytest.mark.parametrize(
    ("skews", "expected"),
    [
        ([0.0] * 30, []),
        ([-2.0, 0.3, -0.4] * 20, []),
        ([0.0] * 30 + [3600.0] + [0.0] * 30, []),
        ([3600.0] * 30, ["the clock of the sender is 3600.0 s ahead of this computer's; synchronise both"]),
        ([-86_400.0] * 30, []),
    ],
)
def test_what_an_operator_is_told(skews: list[float], expected: list[str]) -> None:
    assert told(skews) == expected


def test_a_clock_that_is_set_right_is_told_and_one_that_falls_behind() -> None:
    texts = told([3600.0] * 30 + [0.0] * 30 + [-100.0] * 30)
    assert [text.split("(")[0][:34] for text in texts] == [
        "the clock of the sender is 3600.0 ",
        "the clock of the sender is right a",
        "blocks arrive 100.0 s after their ",
    ]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60))
def test_the_skew_is_one_of_those_seen_lately(skews: list[float]) -> None:
    clock = SenderClock()
    for skew in skews:
        clock.observe(skew, 0.0)
    assert clock.skew is not None
    assert min(skews[-BLOCKS:]) <= clock.skew <= max(skews[-BLOCKS:])
