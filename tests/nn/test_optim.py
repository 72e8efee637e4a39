from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import AdamW

from cgsa.nn.optim import INITIAL_LR_FACTOR, WARM_UP_SHARE, lr_factor, make_adam, set_lr


def test_one_cycle_rises_to_its_peak_and_falls_to_zero() -> None:
    assert lr_factor(0.0, "one_cycle") == pytest.approx(INITIAL_LR_FACTOR)
    assert lr_factor(WARM_UP_SHARE, "one_cycle") == pytest.approx(1.0)
    assert lr_factor(1.0, "one_cycle") == pytest.approx(0.0)
    assert lr_factor(0.5, "constant") == 1.0


@given(st.floats(0, 1), st.floats(0, 1))
def test_one_cycle_has_one_peak(first: float, second: float) -> None:
    low, high = sorted((first, second))
    if high <= WARM_UP_SHARE:
        assert lr_factor(low, "one_cycle") <= lr_factor(high, "one_cycle") + 1e-12
    if low >= WARM_UP_SHARE:
        assert lr_factor(low, "one_cycle") >= lr_factor(high, "one_cycle") - 1e-12


def test_weight_decay_is_decoupled() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = make_adam([weight], 0.1, weight_decay=0.5)
    assert isinstance(optimizer, AdamW)
    weight.grad = torch.zeros(3)
    optimizer.step()
    torch.testing.assert_close(weight.detach(), torch.full((3,), 0.95))


def test_a_rate_can_be_set() -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = make_adam([weight], 0.1, schedule="one_cycle")
    set_lr(optimizer, 0.0)
    weight.grad = torch.ones(1)
    optimizer.step()
    assert weight.item() == 1.0
