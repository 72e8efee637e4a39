"""Running mean of a value over the last few window lengths."""

from __future__ import annotations

import torch
from torch import Tensor

STATE_LENGTHS = 4
"""Window lengths over which distances are averaged for the state; single windows scatter too much."""
ALARM_LENGTHS = 64
"""The same for the alarm. A healthy machine that is slightly outside training stays there, and its scatter would cross
the limit many times per day; averaged over this many lengths it scatters a quarter as much."""


def running_mean(values: Tensor, count: int) -> Tensor:
    """Return the mean of each value and the ``count - 1`` values before it, or of all of them if there are fewer."""
    sums = torch.nn.functional.pad(values.double().cumsum(0), (1, 0))
    end = torch.arange(1, len(sums), device=values.device)
    begin = (end - count).clamp(min=0)
    return (sums[end] - sums[begin]) / (end - begin)
