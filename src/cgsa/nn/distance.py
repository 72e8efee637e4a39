"""Distance of windows from the training data.

A classifier is confident even far from its training data. The distance to the
nearest class shows whether a window is known: it is large for a fault absent
from training and small for a known state. It is measured twice, in the input of
the feature extractor and in its features. The input reacts to anything new; the
features react mostly to what separates classes and little to new conditions. A
window that is far in both is unknown.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

SHRINKAGE = 0.01
"""Share of the covariance that is replaced by its mean over the axes, so that it is never singular."""


class ClassDistance(nn.Module):
    """Mahalanobis distance to the nearest class mean, with one covariance for all classes."""

    means: Tensor
    whitening: Tensor
    usual: Tensor
    """Median of the squared distance over the training windows."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        self.register_buffer("means", torch.zeros(classes, width))
        self.register_buffer("whitening", torch.eye(width))
        self.register_buffer("usual", torch.ones(()))

    @torch.no_grad()
    def fit(self, points: Tensor, labels: Tensor) -> None:
        """Estimate the class means and their common covariance from training windows."""
        exact = points.to(torch.float64)
        means = torch.stack([exact[labels == label].mean(dim=0) for label in range(len(self.means))])
        within = exact - means[labels]
        covariance = within.T @ within / len(within)
        level = covariance.diagonal().mean().clamp(min=1e-12)
        covariance = (1 - SHRINKAGE) * covariance + SHRINKAGE * level * torch.eye(len(covariance)).to(covariance)
        self.whitening.copy_(torch.linalg.cholesky(torch.linalg.inv(covariance)))
        self.means.copy_(means)
        self.usual.fill_(1.0)
        self.usual.copy_(self(points).median().clamp(min=1e-12))

    @torch.no_grad()
    def forward(self, points: Tensor) -> Tensor:
        """Return the squared distance of every window, as a multiple of the median in training."""
        squares = torch.cdist(points @ self.whitening, self.means @ self.whitening).square()
        return squares.amin(dim=1) / self.usual


class TrainingDistance(nn.Module):
    """Product of the distances in both spaces: about 1 within the training data.

    ``inputs`` and ``features`` are the widths of the feature extractor's input and output.
    """

    def __init__(self, classes: int, inputs: int, features: int) -> None:
        super().__init__()
        self.inputs = ClassDistance(classes, inputs)
        self.features = ClassDistance(classes, features)

    def fit(self, inputs: Tensor, features: Tensor, labels: Tensor) -> None:
        """Fit both spaces to training windows."""
        self.inputs.fit(inputs, labels)
        self.features.fit(features, labels)

    @torch.no_grad()
    def forward(self, inputs: Tensor, features: Tensor) -> Tensor:
        """Return the distance of every window from the training data."""
        distance: Tensor = self.inputs(inputs) * self.features(features)
        return distance
