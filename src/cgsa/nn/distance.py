"""Where the windows of training lie, and how far from all of them a window is.

A classifier is sure of itself even where it has never been. The distance to the
nearest class says whether it has been there: large for a fault that was never
trained, small for a known state. It is taken twice, in what the extractor sees
and in the features that it makes of it. The first sees whatever is new; the
second sees most of what would tell classes apart, and little of what a new
condition does. What is far in both is unknown.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

SHRINKAGE = 0.01
"""Share of the covariance that is replaced by its mean over the axes, so that no direction is taken for certain."""


class ClassDistance(nn.Module):
    """Mahalanobis distance to the nearest class mean, with one covariance for all classes.

    Parameters
    ----------
    classes
        How many there are.
    width
        Numbers that a window is told by.
    """

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
        """Learn the means and their common covariance from training windows."""
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
        """Return the squared distance of every window, as a multiple of what is usual in training."""
        squares = torch.cdist(points @ self.whitening, self.means @ self.whitening).square()
        return squares.amin(dim=1) / self.usual


class TrainingDistance(nn.Module):
    """The distance of windows in both spaces, multiplied: about 1 where training was.

    Parameters
    ----------
    classes
        How many there are.
    inputs
        Numbers that the extractor sees of a window.
    features
        Numbers that it makes of them.
    """

    def __init__(self, classes: int, inputs: int, features: int) -> None:
        super().__init__()
        self.inputs = ClassDistance(classes, inputs)
        self.features = ClassDistance(classes, features)

    def fit(self, inputs: Tensor, features: Tensor, labels: Tensor) -> None:
        """Learn both spaces from training windows."""
        self.inputs.fit(inputs, labels)
        self.features.fit(features, labels)

    @torch.no_grad()
    def forward(self, inputs: Tensor, features: Tensor) -> Tensor:
        """Return how far every window is from all training."""
        distance: Tensor = self.inputs(inputs) * self.features(features)
        return distance
