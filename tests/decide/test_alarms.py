from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.decide.alarms import CLEAR, RAISE, latch_alarm


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.booleans(), st.integers(1, 40))
def test_the_latch_equals_a_loop_for_any_batches(healthy: list[float], active: bool, size: int) -> None:  # noqa: FBT001
    literal, now_active = [], active
    for probability in healthy:
        now_active = True if probability < RAISE else False if probability > CLEAR else now_active
        literal.append(now_active)
    found: list[bool] = []
    before = torch.tensor(active)
    for begin in range(0, len(healthy), size):
        alarm = latch_alarm(torch.tensor(healthy[begin : begin + size], dtype=torch.float64), before)
        before = alarm[-1]
        found += alarm.tolist()
    assert found == literal
