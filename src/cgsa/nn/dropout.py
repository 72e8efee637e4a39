"""Dropout that draws from a generator of its own, so that trainings beside each other do not disturb each other."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Dropout(nn.Module):
    """Leave out a share of the units in training, and scale up the others; when it is used, change nothing.

    It draws from ``generator``, which whoever trains has to set. A module with
    a generator cannot be copied, so it is taken away after training.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x``, in training with some units left out."""
        if not self.training or self.generator is None:
            return x
        kept = torch.rand(x.shape, device=x.device, generator=self.generator) >= self.share
        return x * kept / (1 - self.share)


def draw_from(module: nn.Module, generator: torch.Generator | None) -> None:
    """Let all dropouts in a module draw from a generator; none ends their work."""
    for part in module.modules():
        if isinstance(part, Dropout):
            part.generator = generator
