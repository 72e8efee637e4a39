"""Alarm with hysteresis: raised when a fault is more likely than health, cleared when health is nearly certain."""

from __future__ import annotations

import torch
from torch import Tensor

RAISE = 0.5
"""The alarm is raised when the probability of health falls below this."""
CLEAR = 0.9
"""The alarm is cleared when it rises above this: weak evidence must not raise the alarm again and again."""


def latch_alarm(healthy: Tensor, active: Tensor) -> Tensor:
    """Return for each window whether the alarm is active.

    ``healthy`` is the probability of health after each window, in stream order; ``active`` tells whether the alarm was
    active before the first.
    """
    # 1 raises, 0 clears, -1 keeps the most recent of these.
    clear, keep = torch.zeros_like(healthy, dtype=torch.int64), torch.full_like(healthy, -1, dtype=torch.int64)
    change = torch.where(healthy < RAISE, clear + 1, torch.where(healthy > CLEAR, clear, keep))
    changes = torch.cat([active.to(change.dtype).reshape(1), change])
    position = torch.arange(len(changes), device=changes.device)
    latest = torch.where(changes >= 0, position, 0).cummax(dim=0).values
    return changes[latest][1:] == 1
