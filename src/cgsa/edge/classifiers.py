"""The classifiers of an ensemble (:mod:`cgsa.nn.ensemble`, :mod:`cgsa.nn.trees`) as parts of a graph.

Members in orders need the speed of the machine, which the runner does not know: they are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import sqrt

import numpy as np
import torch
from onnx import TensorProto

from cgsa.edge.graph import GraphValue
from cgsa.nn.ensemble import KERNEL_WAVES, Ensemble, Heads, KernelHead
from cgsa.nn.trees import DEPTH, LEAST_SHARE, NODES, TreeHead


def member_graph(features: Sequence[GraphValue], ensemble: Ensemble) -> GraphValue:
    """Return the scores of the members that need no speed, (windows, members, classes)."""
    graph, heads = features[0].graph, ensemble.head_modules()
    own = [features[place] for place, _ in ensemble.config.heads]
    relative = [one - head.healthy for one, head in zip(own, heads, strict=True)]
    trees = [head.trees for head in heads if head.trees is not None]
    by_trees = tree_graph(relative, trees, [len(head.healthy) for head in heads]) if trees else None
    scores: list[GraphValue] = []
    for place, (one, head) in enumerate(zip(relative, heads, strict=True)):
        scores += _head_scores(one, head)
        if by_trees is not None:
            scores.append(by_trees.take([place], axis=1))
    return graph.concat(scores, axis=1)


def _head_scores(relative: GraphValue, head: Heads) -> list[GraphValue]:
    """Return the scores of the linear classifiers and of the kernel classifier, (windows, classifiers, classes)."""
    count, classes = head.shape
    found = [(relative @ head.weight.T + head.bias).reshape(-1, count, classes)] if count else []
    return found if head.kernel is None else [*found, _kernel_scores(relative, head.kernel).expand(1)]


def _kernel_scores(relative: GraphValue, head: KernelHead) -> GraphValue:
    phase = relative @ head.axes @ head.frequencies + head.offset
    # The factor belongs to the weights: onnxruntime would fuse it into the product in single precision.
    return phase.graph.op("Cos", phase) @ (head.weight.double().T * sqrt(2 / KERNEL_WAVES)) + head.bias


def tree_graph(features: Sequence[GraphValue], heads: Sequence[TreeHead], widths: Sequence[int]) -> GraphValue:
    """Return the scores of the trees of several heads for their features, (windows, heads, classes).

    ``widths`` are the numbers of features of the heads. All trees are walked together,
    one level after the other: each step is a look-up in tables.
    """
    graph, trees = features[0].graph, len(heads[0].feature)
    every = graph.concat(list(features), axis=1)
    roots = NODES * torch.arange(len(heads) * trees, dtype=torch.int32)
    begins = accumulate(widths[:-1], initial=0)
    feature = torch.cat([head.feature + begin for head, begin in zip(heads, begins, strict=True)]).flatten()
    threshold = torch.cat([head.threshold for head in heads]).flatten()
    child = (torch.cat([head.child for head in heads]) + roots[:, None, None]).flatten()
    share = torch.cat([head.share for head in heads]).flatten(0, 1)
    shape = graph.concat([every.length(0).expand(0), graph.constant(np.array([len(roots)]))], axis=0)
    node = graph.op("Expand", roots, shape)
    features_of, limits, children = (graph.constant(table) for table in (feature, threshold, child))
    for _ in range(DEPTH):
        value = graph.op("GatherElements", every, features_of.take(node, axis=0), axis=1)
        above = (value > limits.take(node, axis=0)).to(TensorProto.INT32)
        node = children.take(node * np.array(2, dtype=np.int32) + above, axis=0)
    mean = graph.constant(share).take(node, axis=0).reshape(0, len(heads), trees, share.shape[1]).mean(2)
    return (mean * (1 - LEAST_SHARE) + LEAST_SHARE / share.shape[1]).log()
