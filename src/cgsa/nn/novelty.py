"""How far windows are from everything that an ensemble was trained on.

For each kind of features, training varies along few axes: those of load, speed
and faults. A window is far if it lies beyond the others along these axes, or if
it differs in a way in which training windows never differ from each other.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cgsa.nn.ensemble import Ensemble

AXES = 32
"""Axes along which training windows vary; the rest counts as difference of another kind."""

LEAST_SHARE_BESIDE = 1e-5
"""Least share of the squared distance that counts as beside the axes."""


class EnsembleDistance(nn.Module):
    """Distance from the training data over all kinds of features: about 1 within them."""

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__()
        self.kinds = nn.ModuleList([FeatureDistance(one.out_features) for one in ensemble.feature_modules()])

    def kind_modules(self) -> list[FeatureDistance]:
        """Return the distance of each kind of features."""
        return [one for one in self.kinds if isinstance(one, FeatureDistance)]

    @torch.no_grad()
    def forward(self, features: Sequence[Tensor]) -> Tensor:
        """Return the distance of windows from their features, (windows,)."""
        parts = [kind(one) for kind, one in zip(self.kind_modules(), features, strict=True)]
        return join_distances(parts)


class FeatureDistance(nn.Module):
    """Distance from training windows in one kind of features, along their axes and beside them."""

    centre: Tensor
    scale: Tensor
    axes: Tensor
    """(features, axes)"""
    deviation: Tensor
    """Deviation of the training windows along each axis."""
    usual: Tensor
    """Medians over the training windows, along the axes and beside them."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        axes = min(AXES, inputs)
        self.register_buffer("centre", torch.zeros(inputs))
        self.register_buffer("scale", torch.ones(inputs))
        self.register_buffer("axes", torch.zeros(inputs, axes))
        self.register_buffer("deviation", torch.ones(axes))
        self.register_buffer("usual", torch.ones(2))

    @torch.no_grad()
    def forward(self, features: Tensor) -> Tensor:
        """Return the mean square along the axes and beside them, as multiples of the median, (windows, 2)."""
        relative = (features - self.centre) / self.scale
        along = relative @ self.axes
        square = relative.square().sum(dim=1)
        # A smaller share is the rounding error of the difference, as where there are no more features than axes.
        beside = torch.maximum(square - along.square().sum(dim=1), LEAST_SHARE_BESIDE * square).clamp(min=1e-12)
        inside = (along / self.deviation).square().mean(dim=1)
        return torch.stack([inside, beside], dim=1) / self.usual


def join_distances(parts: Sequence[Tensor]) -> Tensor:
    """Return the geometric mean of the distances in all kinds of features, (windows,)."""
    return torch.cat(list(parts), dim=1).clamp(min=1e-12).log().mean(dim=1).exp()
