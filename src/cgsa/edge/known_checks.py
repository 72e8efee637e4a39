"""The checks whether a signal is that of the machine (``cgsa.nn.known``, ``cgsa.nn.offset``) as parts of a graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from onnx import TensorProto

from cgsa.edge.classifiers import tree_graph
from cgsa.edge.graph import GraphValue
from cgsa.nn.known import LEAST_RATIO, KnownCheck
from cgsa.nn.offset import NAMED_NEARNESS, OffsetCheck


def known_graph(features: Sequence[GraphValue], means: GraphValue, check: KnownCheck) -> tuple[GraphValue, GraphValue]:
    """Return the distance of each window, and the number of its question; ``means`` are those of the channels."""
    graph, checks = means.graph, len(check.limits)
    relative = graph.concat(list(features), axis=1) - check.centre
    scores = relative @ check.weight.T
    whitened = (scores - check.mean) @ check.whitening
    direct = np.ones(checks, dtype=np.bool_)
    if check.trees is not None:
        by_trees = tree_graph([relative], [check.trees], [len(check.centre)]).take(np.array(0), axis=1)
        shares = graph.op("Sigmoid", by_trees.part(1, 1, 1 + len(check.by_trees)) - by_trees.part(1, 0, 1))
        direct[check.by_trees] = False
        # A place for each check: its own score, or its share among the trees.
        places = np.arange(checks)
        places[check.by_trees] = checks + np.arange(len(check.by_trees))
        scores = graph.concat([scores, shares], axis=1).take(places, axis=1)
    alone = scores / check.limits
    together = (whitened * whitened).mean(1).sqrt()
    ratio = alone.reduce("Max", 1).maximum(together).at_least(LEAST_RATIO)
    apart = whitened.expand(1) - check.imitations
    gaps = (apart * apart).reduce("Sum", 2).sqrt()
    size = (whitened * whitened).reduce("Sum", 1, keep=True).sqrt()
    nearer_to_genuine = graph.op("And", graph.op("Not", graph.op("Less", gaps, size)), direct)
    ruled_out = graph.op("Or", nearer_to_genuine, graph.op("Not", alone > 1.0))
    gaps = graph.where(ruled_out, np.inf, gaps)
    cause = graph.op("ArgMin", gaps, axis=1, keepdims=0) + np.array(1)
    cause = graph.where(graph.op("Less", gaps.reduce("Min", 1), np.inf), cause, np.array(checks + 1))
    question = graph.where(ratio > 1.0, cause, np.array(0))
    if check.offset is not None:
        of_offset, named = _offset(means, check.offset)
        question = graph.where(of_offset > 1.0, named + np.array(checks + 2), question)
        ratio = ratio.maximum(of_offset)
    return ratio / check.usual, question


def _offset(means: GraphValue, check: OffsetCheck) -> tuple[GraphValue, GraphValue]:
    """Return the share of the limit that windows reach, and the number of the question that they would raise."""
    graph = means.graph
    offset = means.take(check.channels, axis=1) / check.scale
    distance = _nearest(offset, check.genuine[None])
    share = distance / check.farthest
    if not len(check.limits):
        return share.reduce("Max", 1), share.reduce("Max", 1).to(TensorProto.INT64) * np.array(0)
    nearness = distance / (_nearest(offset, check.imitated) + check.usual)
    shares = graph.concat([nearness / check.limits, share], axis=1)
    named = graph.op("ArgMax", nearness, axis=1, keepdims=0)
    best = nearness.reduce("Max", 1)
    return shares.reduce("Max", 1), graph.where(best > NAMED_NEARNESS, named, np.array(len(check.limits)))


def _nearest(means: GraphValue, points: torch.Tensor) -> GraphValue:
    """Return the distance of each mean from the nearest of each group of points, (windows, groups)."""
    apart = means.expand(1).expand(1) - points[None]
    return (apart * apart).reduce("Sum", -1).sqrt().reduce("Min", -1)
