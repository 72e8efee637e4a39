"""The healthy reference: how a machine sounds when nothing is wrong with it."""

from __future__ import annotations

import torch
from torch import Tensor

SHARPNESS = 20.0
"""How much nearer a way of seeing must bring a window to count more: by a twentieth, nearly three times as much."""
TINY = 1e-12


def reference_of(inputs: Tensor) -> Tensor:
    """Return the reference that a span of healthy windows gives: their median, which a few bad ones do not move."""
    return inputs.median(dim=0).values


def share_of_own(own: Tensor, general: Tensor) -> Tensor:
    """Return how much the machine's own reference counts beside the general one, by the distances that they leave."""
    return torch.sigmoid(SHARPNESS * torch.log(general.clamp(min=TINY) / own.clamp(min=TINY)))
