"""Exponential moving average of a network's weights."""

from __future__ import annotations

import torch
from torch import nn


@torch.no_grad()
def update_ema(teacher: nn.Module, student: nn.Module, momentum: float) -> None:
    """Set each teacher parameter to ``momentum * teacher + (1 - momentum) * student``."""
    for kept, new in zip(teacher.parameters(), student.parameters(), strict=True):
        kept.lerp_(new, 1 - momentum)
