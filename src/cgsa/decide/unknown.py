"""A state that training never held, as one more state beside the classes."""

from __future__ import annotations

import torch
from torch import Tensor

SHARPNESS = 20.0
"""How fast a window turns unknown with its distance: a fifth beyond the limit leaves 3 % to the known classes."""


def with_unknown(probabilities: Tensor, distance: Tensor, limit: float) -> Tensor:
    """Return probabilities with one more column, that the window is of no known class.

    Parameters
    ----------
    probabilities
        Of the known classes, (windows, classes), were the window of one of them.
    distance
        How far every window lies from where training was.
    limit
        Where one is as likely as the other; all but a few windows of known classes lie nearer.
    """
    unknown = torch.sigmoid(SHARPNESS * torch.log(distance.double().clamp(min=1e-12) / limit))[:, None]
    return torch.cat([probabilities.double() * (1 - unknown), unknown], dim=1)
