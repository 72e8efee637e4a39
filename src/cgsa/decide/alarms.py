"""When an alarm stands: raised where a fault is more likely than health, cleared where health is nearly sure."""

from __future__ import annotations

import torch
from torch import Tensor

RAISE = 0.5
"""The alarm is raised where health is believed less than this."""
CLEAR = 0.9
"""It is cleared where health is believed more than this: weak evidence must not raise it again and again."""


def latched(healthy: Tensor, standing: Tensor) -> Tensor:
    """Return for every window whether the alarm stands.

    Parameters
    ----------
    healthy
        Belief in health after each window, in stream order.
    standing
        Whether the alarm stood before the first of them.
    """
    # 1 raises, 0 clears, anything else leaves the alarm as the last of these left it.
    clear, hold = torch.zeros_like(healthy, dtype=torch.int64), torch.full_like(healthy, -1, dtype=torch.int64)
    turn = torch.where(healthy < RAISE, clear + 1, torch.where(healthy > CLEAR, clear, hold))
    turns = torch.cat([standing.to(turn.dtype).reshape(1), turn])
    place = torch.arange(len(turns), device=turns.device)
    last = torch.where(turns >= 0, place, 0).cummax(dim=0).values
    return turns[last][1:] == 1
