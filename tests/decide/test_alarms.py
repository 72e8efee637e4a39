from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.decide.alarms import CLEAR, RAISE, latch_alarm


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.booleans(), st.integers(1, 40))
def test_the_latch_is_what_a_loop_does_whatever_the_batches(healthy: list[float], standing: bool, size: int) -> None:  # noqa: FBT001
    literal, stands = [], standing
    for belief in healthy:
        stands = True if belief < RAISE else False if belief > CLEAR else stands
        literal.append(stands)
    found: list[bool] = []
    before = torch.tensor(standing)
    for begin in range(0, len(healthy), size):
        alarm = latch_alarm(torch.tensor(healthy[begin : begin + size], dtype=torch.float64), before)
        before = alarm[-1]
        found += alarm.tolist()
    assert found == literal
