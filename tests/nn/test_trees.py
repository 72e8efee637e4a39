from __future__ import annotations

import math

import torch

from cgsa.nn.trees import LEAST_SHARE, NODES, TREES, StackedTrees, TreeHead


def stump(head: TreeHead, tree: int, feature: int, threshold: float) -> None:
    """Make a tree that separates class 0 from class 1 at a threshold."""
    head.feature[tree, 0], head.threshold[tree, 0] = feature, threshold
    head.child[tree, :3] = torch.tensor([[1, 2], [1, 1], [2, 2]], dtype=torch.int32)
    head.share[tree, 1], head.share[tree, 2] = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])


def test_a_window_gets_the_mean_share_of_the_leaves_that_it_reaches() -> None:
    head = TreeHead(classes=2)
    for tree in range(TREES):
        stump(head, tree, feature=tree % 2, threshold=0.5)
    scores = head(torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 0.5]]))
    low, even, high = (math.log((1 - LEAST_SHARE) * share + LEAST_SHARE / 2) for share in (0.0, 0.5, 1.0))
    expected = torch.tensor([[high, low], [even, even], [low, high], [high, low]])
    torch.testing.assert_close(scores, expected)


def test_a_head_without_training_is_undecided() -> None:
    scores = TreeHead(classes=3)(torch.randn(5, 4, generator=torch.Generator().manual_seed(0)))
    torch.testing.assert_close(scores, torch.full((5, 3), math.log(1 / 3)))


def test_the_shape_does_not_depend_on_the_training() -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in TreeHead(classes=4).state_dict().items()}
    nodes = (TREES, NODES)
    assert shapes == {"feature": nodes, "threshold": nodes, "child": (*nodes, 2), "share": (*nodes, 4)}


def test_stacked_trees_give_the_scores_of_every_head() -> None:
    generator, widths = torch.Generator().manual_seed(0), (3, 7, 5)
    heads = [TreeHead(classes=2, trees=4) for _ in widths]
    for head, width in zip(heads, widths, strict=True):
        for tree in range(4):
            feature = int(torch.randint(width, (), generator=generator))
            stump(head, tree, feature, threshold=float(torch.randn((), generator=generator)))
    features = [torch.randn(6, width, generator=generator) for width in widths]
    stacked = StackedTrees(heads, widths)(features)
    for number, (head, one) in enumerate(zip(heads, features, strict=True)):
        torch.testing.assert_close(stacked[:, number], head(one))
    assert float(stacked.std()) > 0.1
