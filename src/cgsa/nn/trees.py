"""Extremely randomised trees as plain tensors, so that a bundle needs no other library to classify.

P. Geurts, D. Ernst, L. Wehenkel, "Extremely randomized trees", Machine Learning 63, 2006.
A tree answers with what it saw in training and never extrapolates, which suits
conditions beyond those of the training where a linear model goes too far.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

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
        return _scores(self.share[tree, node].mean(dim=1))


class StackedTrees:
    """Trees of several heads that are walked together: a few large steps take less time than many small ones.

    The heads have the same number of trees and of classes, and are copied: later changes of them have no effect.
    """

    def __init__(self, heads: Sequence[TreeHead], widths: Sequence[int]) -> None:
        """``widths`` are the numbers of features of the heads."""
        self._shape = (len(heads), len(heads[0].feature))
        firsts = accumulate(widths[:-1], initial=0)
        # Plain tables of 32 bits, since look-ups take most of the time.
        self._feature = torch.cat([head.feature + first for head, first in zip(heads, firsts, strict=True)]).flatten()
        self._threshold = torch.cat([head.threshold for head in heads]).flatten()
        self._share = torch.cat([head.share for head in heads]).flatten(0, 1)
        # A node has one number among those of all trees, so that a step is a look-up.
        children = torch.cat([head.child for head in heads])
        self._roots = NODES * torch.arange(len(children), dtype=children.dtype, device=children.device)
        self._child = (children + self._roots[:, None, None]).flatten()

    def __call__(self, features: Sequence[Tensor]) -> Tensor:
        """Return the scores of all heads for their features (windows, features) each, (windows, heads, classes)."""
        every = torch.cat(list(features), dim=1)
        windows, width = every.shape
        values, node = every.flatten(), self._roots.repeat(windows)
        begin = width * torch.arange(windows, dtype=node.dtype, device=node.device).repeat_interleave(len(self._roots))
        for _ in range(DEPTH):
            feature = self._feature.index_select(0, node).add_(begin)
            above = values.index_select(0, feature) > self._threshold.index_select(0, node)
            node = self._child.index_select(0, node.mul_(2).add_(above))
        share = self._share.index_select(0, node)
        return _scores(share.reshape(windows, *self._shape, -1).mean(dim=2))


def _scores(share: Tensor) -> Tensor:
    """Return scores from the mean shares of the classes, (..., classes)."""
    return torch.log((1 - LEAST_SHARE) * share + LEAST_SHARE / share.shape[-1])
