"""Where the windows of training lie, and how far from all of them a window is.

A classifier is sure of itself even where it has never been. The distance to the
nearest class says whether it has been there: large for a fault that was never
trained, small for a known state. It is taken in what the extractor sees, with
the healthy reference off, and not in the extractor's features, which keep only
what tells the trained classes apart.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

SHRINKAGE = 0.01
"""Share of the covariance that is replaced by its mean over the axes, so that no direction is taken for certain."""


class KnownSpace(nn.Module):
    """Mahalanobis distance to the nearest class mean, with one covariance for all classes.

    Parameters
    ----------
    classes
        How many there are.
    width
        Numbers that the extractor sees of a window.
    """

    means: Tensor
    whitening: Tensor

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        self.register_buffer("means", torch.zeros(classes, width))
        self.register_buffer("whitening", torch.eye(width))

    @torch.no_grad()
    def fit(self, inputs: Tensor, labels: Tensor) -> None:
        """Learn the means and their common covariance from training windows."""
        exact = inputs.to(torch.float64)
        means = torch.stack([exact[labels == label].mean(dim=0) for label in range(len(self.means))])
        within = exact - means[labels]
        covariance = within.T @ within / len(within)
        level = covariance.diagonal().mean().clamp(min=1e-12)
        covariance = (1 - SHRINKAGE) * covariance + SHRINKAGE * level * torch.eye(len(covariance)).to(covariance)
        whitening = torch.linalg.cholesky(torch.linalg.inv(covariance))
        self.whitening.copy_(whitening)
        self.means.copy_(means)

    @torch.no_grad()
    def forward(self, inputs: Tensor) -> Tensor:
        """Return the squared distance of every window a dimension: about 1 where training was."""
        squares = torch.cdist(inputs @ self.whitening, self.means @ self.whitening).square()
        return squares.amin(dim=1) / inputs.shape[1]
