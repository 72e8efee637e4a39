from __future__ import annotations

import torch

from cgsa.nn.reference import median_reference


def test_ten_percent_bad_windows_do_not_shift_the_reference() -> None:
    clean = torch.randn(100, 4, generator=torch.Generator().manual_seed(0))
    poisoned = clean.clone()
    poisoned[::10] = 1e6
    assert float((median_reference(poisoned) - median_reference(clean)).abs().max()) < 0.5
