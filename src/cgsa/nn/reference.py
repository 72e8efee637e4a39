"""The healthy reference: the features of a machine without a fault."""

from __future__ import annotations

import torch
from torch import Tensor

SHARPNESS = 20.0
"""How strongly the smaller distance is preferred: 5 % smaller counts nearly three times as much."""
TINY = 1e-12


def median_reference(inputs: Tensor) -> Tensor:
    """Return the reference of a span of healthy windows: their median, which a few bad windows do not shift."""
    return inputs.median(dim=0).values


def own_reference_weight(own: Tensor, general: Tensor) -> Tensor:
    """Return the weight of the machine's own reference against the general one, given the distances with each."""
    return torch.sigmoid(SHARPNESS * torch.log(general.clamp(min=TINY) / own.clamp(min=TINY)))
