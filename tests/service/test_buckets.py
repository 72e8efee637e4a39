from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cgsa.service.buckets import TokenBuckets


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.lists(st.tuples(st.floats(0, 5), st.sampled_from("ab")), max_size=60))
def test_draws_never_exceed_rate_and_burst(steps: list[tuple[float, str]]) -> None:
    clock = Clock()
    buckets = TokenBuckets(2.0, 3.0, clock=clock)
    drawn: dict[str, list[float]] = {"a": [], "b": []}
    for pause, key in steps:
        clock.now += pause
        free = not buckets.empty(key)
        assert buckets.draw(key) == free
        if free:
            drawn[key].append(clock.now)
    for times in drawn.values():
        for first in range(len(times)):
            for last in range(first, len(times)):
                assert last - first + 1 <= 3.0 + 2.0 * (times[last] - times[first]) + 1e-6


def test_a_pause_refills_a_bucket_and_the_wait_is_known() -> None:
    clock = Clock()
    buckets = TokenBuckets(0.5, 2.0, clock=clock)
    assert [buckets.draw("x") for _ in range(3)] == [True, True, False]
    assert buckets.wait("x") == 2.0
    clock.now = 2.0
    assert [buckets.draw("x") for _ in range(2)] == [True, False]
    assert buckets.wait("y") == 0.0


def test_memory_is_bounded_by_dropping_the_least_recent_key() -> None:
    buckets = TokenBuckets(0.001, 1.0, capacity=2, clock=Clock())
    assert [buckets.draw(key) for key in "abc"] == [True] * 3
    assert [buckets.draw(key) for key in "cab"] == [False, True, True]
