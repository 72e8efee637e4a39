"""Envelopes in orders: lines at multiples of the speed of the machine instead of at frequencies.

How often impacts come is proportional to the speed, whereas the resonances that
they excite stay where they are. So the envelope at another speed has the same
lines at frequencies multiplied by the ratio of the speeds. Where the speed is
known, the lines are moved to where they would be at the speed of the training.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from cgsa.errors import ConfigError

MOST_RATIO = 4.0
"""Largest ratio between a speed and that of the training, either way: beyond, hardly a line would be left."""


@dataclass(frozen=True)
class SpeedConfig:
    """Which operating condition is the speed, and the speed to which envelopes are moved."""

    condition: int
    """Index of the condition."""
    reference: float
    """In the unit of the condition."""

    def __post_init__(self) -> None:
        if self.condition < 0 or not 0 < self.reference < inf:
            raise ConfigError(
                f"speed is condition {self.condition}, reference {self.reference:g}; expected 0 or more, and a "
                f"positive number"
            )

    def factors(self, conditions: Tensor) -> Tensor:
        """Return by how much the lines of windows at these conditions (windows, conditions) are moved.

        NaN where the speed is unknown, or too far from the reference to be usable.
        """
        factors = self.reference / conditions[:, self.condition].double()
        return torch.where((factors >= 1 / MOST_RATIO) & (factors <= MOST_RATIO), factors, torch.nan)


def stretch(features: Tensor, bins: int, factors: Tensor) -> Tensor:
    """Return the lines of each window at frequencies multiplied by its factor.

    Between lines, values are interpolated. Lines that lie beyond the last one get the mean of the upper eighth, which
    is the level of the noise.

    Parameters
    ----------
    features
        (windows, channels * bins); the first line is at one step of the frequency, since that at zero is left out.
    bins
        Lines per channel.
    factors
        One per window.
    """
    lines = features.reshape(len(features), -1, bins)
    source = torch.arange(1, bins + 1, device=features.device) / factors[:, None] - 1
    below = source.floor().clamp(0, bins - 1)
    share = (source - below).clamp(0, 1).to(features)[:, None]
    at, after = (place.clamp(max=bins - 1).long()[:, None].expand_as(lines) for place in (below, below + 1))
    moved = lines.gather(2, at) * (1 - share) + lines.gather(2, after) * share
    noise = lines[..., -max(1, bins // 8) :].mean(dim=-1, keepdim=True)
    return torch.where(source[:, None] <= bins - 1, moved, noise).flatten(1)
