from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from cgsa.data.windows import overlapping_windows
from cgsa.engines.sliding import SlidingLinear


@settings(max_examples=30, deadline=None)
@given(
    channels=st.integers(1, 3),
    step=st.integers(1, 5),
    blocks=st.integers(16, 40),
    windows=st.integers(1, 120),
    left_over=st.integers(0, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_sliding_equals_the_layer_window_by_window(
    *, channels: int, step: int, blocks: int, windows: int, left_over: int, seed: int
) -> None:
    torch.manual_seed(seed)
    length = step * blocks
    layer = nn.Linear(channels * length, 7)
    samples = torch.randn(channels, (windows - 1) * step + length + min(left_over, step - 1))
    found = SlidingLinear(layer, channels, length, step)(samples)
    expected = torch.stack([layer(window.flatten()) for window in overlapping_windows(samples, length, step)])
    torch.testing.assert_close(found, expected.detach(), rtol=0, atol=2e-6)


def test_windows_that_share_little_do_not_slide() -> None:
    assert SlidingLinear.pays(1024, 16)
    assert not SlidingLinear.pays(1024, 128)
    assert not SlidingLinear.pays(1000, 16)
    with pytest.raises(ValueError, match="16 steps a window or more"):
        SlidingLinear(nn.Linear(64, 2), 1, 64, 32)
