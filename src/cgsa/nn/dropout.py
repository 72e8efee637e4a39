"""Dropout with its own random generator, so that trainings in parallel do not affect each other."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Dropout(nn.Module):
    """Zero a share of the units in training and scale up the others; the identity otherwise.

    It draws from ``generator``, which the trainer sets. A module with a
    generator cannot be copied, so the generator is removed after training.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x``, in training with some units zeroed."""
        if not self.training or self.generator is None:
            return x
        kept = torch.rand(x.shape, device=x.device, generator=self.generator) >= self.share
        return x * kept / (1 - self.share)


def set_dropout_generator(module: nn.Module, generator: torch.Generator | None) -> None:
    """Let all dropouts in a module draw from a generator; None turns them off."""
    for part in module.modules():
        if isinstance(part, Dropout):
            part.generator = generator
