"""Fitting of extremely randomised trees, by scikit-learn; the bundle keeps them as plain tensors."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cgsa.nn.trees import DEPTH, LEAVES, TreeHead

MIN_WINDOWS_PER_LEAF = 2


def fit_trees(head: TreeHead, features: Tensor, labels: Tensor) -> None:
    """Fit trees to training features, (windows, features); every class has the same weight."""
    # Imported here: a machine that only watches needs no scikit-learn.
    from sklearn.ensemble import ExtraTreesClassifier  # noqa: PLC0415

    # The same draws for every model, so that a training can be repeated.
    forest = ExtraTreesClassifier(
        len(head.feature),
        max_depth=DEPTH,
        max_leaf_nodes=LEAVES,
        min_samples_leaf=MIN_WINDOWS_PER_LEAF,
        class_weight="balanced",
        random_state=0,
    )
    forest.fit(features.float().cpu().numpy(), labels.cpu().numpy())
    for number, one in enumerate(forest.estimators_):
        tree = one.tree_
        count, leaf = tree.node_count, tree.children_left < 0
        own = np.arange(count)
        children = np.stack([np.where(leaf, own, side) for side in (tree.children_left, tree.children_right)], axis=1)
        counts = tree.value[:, 0]
        head.feature[number, :count] = torch.from_numpy(np.where(leaf, 0, tree.feature)).to(head.feature)
        head.threshold[number, :count] = torch.from_numpy(_rounded_down(tree.threshold)).to(head.threshold)
        head.child[number, :count] = torch.from_numpy(children).to(head.child)
        # Classes that are absent from these windows keep a share of zero.
        share = torch.zeros(count, head.share.shape[2], dtype=torch.float64)
        share[:, forest.classes_] = torch.from_numpy(counts / counts.sum(axis=1, keepdims=True))
        head.share[number, :count] = share.to(head.share)


def _rounded_down(
    thresholds: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Return thresholds in single precision that separate single-precision features as the exact ones do."""
    rounded = thresholds.astype(np.float32)
    return np.where(rounded > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)
