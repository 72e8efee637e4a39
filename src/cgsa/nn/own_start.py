"""The machine's own healthy start, against which later windows are compared.

The start of a machine that is known to be healthy says more about it than other
machines do. A window that differs from it by no more than healthy windows at one
condition differ among themselves is healthy, whatever the classifiers say: they may
never have seen a machine like this one. A window that is farther away than any
healthy machine of the training was from its start, at whatever condition, is not
healthy. If the classifiers still say so, its state is unknown. In between, they decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cgsa.nn.change import MOST_LOG_SCORE, HealthyMetrics

CHANGE = "change"
"""Name of the evidence how far a window is from the machine's healthy start; 1 is the limit for healthy machines."""
PASSAGE = 0.1
"""Width, as a difference of logarithms, of the passage below the limit from windows that count as healthy to those that
are left to the classifiers. Beyond the limit nothing changes: even a little probability that is taken from a fault adds
up over time."""


@dataclass(frozen=True)
class OwnStartConfig:
    """What of a window is compared with the start."""

    kinds: tuple[int, ...]
    """Index of each kind of features of the ensemble that counts."""


class OwnStart(nn.Module):
    """Distances of windows from healthy starts of their machine."""

    unchanged: Tensor
    """Logarithm of the distance that windows at the condition of the start usually stay within while healthy."""
    changed: Tensor
    """Logarithm of the distance that healthy windows stay within at every condition."""

    def __init__(self, config: OwnStartConfig, sizes: Sequence[int]) -> None:
        super().__init__()
        self.config = config
        self.metrics = HealthyMetrics([sizes[kind] for kind in config.kinds])
        self.register_buffer("unchanged", torch.zeros(()))
        self.register_buffer("changed", torch.zeros(()))

    @property
    def feature_count(self) -> int:
        """Number of features that are compared."""
        return sum(self.metrics.sizes)

    def rows(self, features: Sequence[Tensor]) -> Tensor:
        """Return what is compared of all kinds of features of the ensemble, (windows, features)."""
        return torch.cat([features[kind] for kind in self.config.kinds], dim=1)

    def log_distance(self, rows: Tensor, starts: Tensor) -> Tensor:
        """Return the logarithm of the distance from the nearest of some starts (starts, features), (windows,)."""
        return torch.stack([self.metrics.log_distance(rows, start) for start in starts]).amin(dim=0)

    def probabilities(self, probabilities: Tensor, log_distance: Tensor) -> Tensor:
        """Return class probabilities in which unchanged windows count as healthy."""
        return with_unchanged(probabilities, log_distance, self.unchanged)

    def change(self, log_distance: Tensor) -> Tensor:
        """Return the distance relative to the limit for healthy machines."""
        return (log_distance - self.changed).clamp(max=MOST_LOG_SCORE).exp()


def with_unchanged(probabilities: Tensor, log_distance: Tensor, limit: Tensor) -> Tensor:
    """Return class probabilities (windows, classes), healthy first, in which unchanged windows count as healthy.

    Where the classifiers name a fault, its probability and that of healthy change places: the window becomes healthy,
    and no more certain than it was. Where they are right already, nothing changes. A surer healthy state would only
    delay the verdict of a later fault.
    """
    unchanged = ((limit - log_distance) / PASSAGE).clamp(0, 1)[:, None].to(probabilities)
    top, likely = probabilities.max(dim=1, keepdim=True)
    moved = unchanged * (top - probabilities[:, :1])
    return probabilities.scatter_add(1, likely, -moved).index_add(1, likely.new_zeros(1), moved)
