from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.online.evidence import evidence_by_condition, split_by_condition

NAMES = st.lists(st.text("abc_", min_size=1, max_size=5), min_size=1, max_size=4, unique=True)


@given(NAMES)
def test_evidence_is_found_by_its_name(conditions: list[str]) -> None:
    values = torch.arange(3.0 * len(conditions)).reshape(3, len(conditions))
    evidence = {
        **split_by_condition("response", conditions, values),
        **split_by_condition("queue_mean", conditions, -values),
        "deviation": torch.zeros(3),
    }
    for what, expected in (("response", values), ("queue_mean", -values)):
        found = evidence_by_condition(what, evidence)
        assert list(found) == (conditions if len(conditions) > 1 else [""])
        assert torch.equal(torch.stack(list(found.values()), dim=1), expected)


def test_a_single_condition_has_no_suffix() -> None:
    assert list(split_by_condition("response", ["torque"], torch.zeros(2, 1))) == ["response"]
    assert list(split_by_condition("response", ["torque", "speed"], torch.zeros(2, 2))) == [
        "response_torque",
        "response_speed",
    ]
    assert evidence_by_condition("response", {"deviation": 1}) == {}
