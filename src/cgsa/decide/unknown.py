"""A state absent from training, added as one more state to the classes."""

from __future__ import annotations

import torch
from torch import Tensor

SHARPNESS = 20.0
"""How fast a window becomes unknown with distance: at 1.2 times the limit, 3 % remain for the known classes."""


def add_unknown_state(probabilities: Tensor, distance: Tensor, limit: float) -> Tensor:
    """Return probabilities with one more column: the probability that the window belongs to no known class.

    Parameters
    ----------
    probabilities
        Class probabilities, (windows, classes), given that the class is known.
    distance
        Distance of each window from the training data.
    limit
        Distance at which known and unknown are equally likely; nearly all windows of known classes are closer.
    """
    unknown = torch.sigmoid(SHARPNESS * torch.log(distance.double().clamp(min=1e-12) / limit))[:, None]
    return torch.cat([probabilities.double() * (1 - unknown), unknown], dim=1)


def without_changed_health(probabilities: Tensor, log_change: Tensor) -> Tensor:
    """Return probabilities with the unknown state last, in which a machine that has changed is not healthy.

    ``log_change`` is the logarithm of the distance of each window from the machine's healthy start, 0 at the limit for
    healthy machines. What the classes call healthy beyond it is unknown; faults that they name stay as they are.
    """
    moved = probabilities[:, 0] * torch.sigmoid(SHARPNESS * log_change.double())
    found = probabilities.clone()
    found[:, 0] -= moved
    found[:, -1] += moved
    return found
