"""A number of every window, averaged over the last few window lengths."""

from __future__ import annotations

import torch
from torch import Tensor

LENGTHS = 4
"""Window lengths over which a distance is joined: one window alone scatters too much to tell what is unknown."""
ALARM_LENGTHS = 64
"""The same for an alarm. A healthy machine that is a little far from training stays so, and what it scatters would pass
the limit many times a day; over so many lengths it scatters a quarter as much."""


def joined_mean(values: Tensor, count: int) -> Tensor:
    """Return the mean of each value and the ``count - 1`` before it; of all before it, where there are fewer."""
    running = torch.nn.functional.pad(values.double().cumsum(0), (1, 0))
    place = torch.arange(1, len(running), device=values.device)
    begin = (place - count).clamp(min=0)
    return (running[place] - running[begin]) / (place - begin)
