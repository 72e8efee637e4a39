"""Extremely randomised trees as plain tensors, so that a bundle needs no other library to classify.

P. Geurts, D. Ernst, L. Wehenkel, "Extremely randomized trees", Machine Learning 63, 2006.
A tree answers with what it saw in training and never extrapolates, which suits
conditions beyond those of the training where a linear model goes too far.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

TREES, DEPTH, LEAVES = 100, 16, 128
"""Number of trees, and the limits of each."""
NODES = 2 * LEAVES - 1
LEAST_SHARE = 0.02
"""Share of the probability that is spread over all classes: no tree has seen everything."""


class TreeHead(nn.Module):
    """Class scores from trees: the logarithm of the mean class share in the leaves that a window reaches."""

    feature: Tensor
    """Index of the feature that each node compares, (trees, nodes)."""
    threshold: Tensor
    """A window goes to the second child if its feature is above this, (trees, nodes)."""
    child: Tensor
    """(trees, nodes, 2); both children of a leaf are the leaf itself."""
    share: Tensor
    """Share of each class among the training windows of a node, (trees, nodes, classes)."""

    def __init__(self, classes: int, trees: int = TREES) -> None:
        super().__init__()
        self.register_buffer("feature", torch.zeros(trees, NODES, dtype=torch.int32))
        self.register_buffer("threshold", torch.zeros(trees, NODES))
        self.register_buffer("child", torch.zeros(trees, NODES, 2, dtype=torch.int32))
        self.register_buffer("share", torch.full((trees, NODES, classes), 1 / classes))

    def forward(self, features: Tensor) -> Tensor:
        """Return scores, (windows, classes)."""
        trees = len(self.feature)
        tree = torch.arange(trees, device=features.device)
        node = torch.zeros(len(features), trees, dtype=torch.long, device=features.device)
        for _ in range(DEPTH):
            value = features.gather(1, self.feature[tree, node].long())
            above = (value > self.threshold[tree, node]).long()
            node = self.child[tree, node, above].long()
        mean = self.share[tree, node].mean(dim=1)
        return torch.log((1 - LEAST_SHARE) * mean + LEAST_SHARE / self.share.shape[2])
