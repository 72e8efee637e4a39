from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.ensemble import ExtraTreesClassifier

from cgsa.nn.trees import DEPTH, LEAST_SHARE, LEAVES, TREES, TreeHead
from cgsa.offline.trees import MIN_WINDOWS_PER_LEAF, fit_trees


def rings(windows: int = 300, classes: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """Classes around each other, which no linear classifier separates."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(windows) % classes
    angle = 2 * torch.pi * torch.rand(windows, generator=generator)
    radius = 1 + labels + 0.2 * torch.randn(windows, generator=generator)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1), labels


def test_tensors_classify_as_the_forest_they_came_from() -> None:
    x, labels = rings()
    head = TreeHead(classes=3)
    fit_trees(head, x, labels)
    forest = ExtraTreesClassifier(
        TREES,
        max_depth=DEPTH,
        max_leaf_nodes=LEAVES,
        min_samples_leaf=MIN_WINDOWS_PER_LEAF,
        class_weight="balanced",
        random_state=0,
    ).fit(x.numpy(), labels.numpy())
    elsewhere = 4 * torch.randn(200, 2, generator=torch.Generator().manual_seed(2))
    expected = np.log((1 - LEAST_SHARE) * forest.predict_proba(elsewhere.numpy()) + LEAST_SHARE / 3)
    np.testing.assert_allclose(head(elsewhere).numpy(), expected, atol=1e-5)


def test_trees_separate_rings_and_are_the_same_every_time() -> None:
    x, labels = rings()
    heads = [TreeHead(classes=3) for _ in range(2)]
    for head in heads:
        fit_trees(head, x, labels)
    assert float((heads[0](x).argmax(dim=1) == labels).double().mean()) > 0.9
    assert all(torch.equal(a, b) for a, b in zip(*(head.state_dict().values() for head in heads), strict=True))


@pytest.mark.parametrize("absent", [0, 2])
def test_a_class_absent_from_the_windows_gets_the_least_share(absent: int) -> None:
    x, labels = rings()
    kept = labels != absent
    head = TreeHead(classes=3)
    fit_trees(head, x[kept], labels[kept])
    torch.testing.assert_close(head(x)[:, absent].exp(), torch.full((len(x),), LEAST_SHARE / 3))


def test_a_feature_equal_to_a_threshold_goes_the_same_way_as_in_training() -> None:
    x = torch.tensor([[0.1], [0.1], [0.3], [0.3], [0.7], [0.7]]).repeat(10, 1)
    labels = (x[:, 0] > 0.2).long()
    head = TreeHead(classes=2)
    fit_trees(head, x, labels)
    assert torch.equal(head(x).argmax(dim=1), labels)
