from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.online.evidence import find_by_condition, name_by_condition

NAMES = st.lists(st.text("abc_", min_size=1, max_size=5), min_size=1, max_size=4, unique=True)


@given(NAMES)
def test_what_is_named_is_found(conditions: list[str]) -> None:
    values = torch.arange(3.0 * len(conditions)).reshape(3, len(conditions))
    evidence = {
        **name_by_condition("response", conditions, values),
        **name_by_condition("queue_mean", conditions, -values),
        "deviation": torch.zeros(3),
    }
    for what, expected in (("response", values), ("queue_mean", -values)):
        found = find_by_condition(what, evidence)
        assert list(found) == (conditions if len(conditions) > 1 else [""])
        assert torch.equal(torch.stack(list(found.values()), dim=1), expected)


def test_one_condition_needs_no_name() -> None:
    assert list(name_by_condition("response", ["torque"], torch.zeros(2, 1))) == ["response"]
    assert list(name_by_condition("response", ["torque", "speed"], torch.zeros(2, 2))) == [
        "response_torque",
        "response_speed",
    ]
    assert find_by_condition("response", {"deviation": 1}) == {}
