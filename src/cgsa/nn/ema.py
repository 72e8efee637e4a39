"""A teacher that follows its student as a moving average."""

from __future__ import annotations

import torch
from torch import nn


@torch.no_grad()
def update_ema(teacher: nn.Module, student: nn.Module, momentum: float) -> None:
    """Move each parameter of the teacher to ``momentum`` of itself and the rest of the student's."""
    for kept, new in zip(teacher.parameters(), student.parameters(), strict=True):
        kept.lerp_(new, 1 - momentum)
