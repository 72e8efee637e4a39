"""Distances from healthy windows (:mod:`cgsa.nn.change`) as parts of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from cgsa.edge.graph import GraphValue
from cgsa.nn.change import LEAST_SQUARE, HealthyMetric, HealthyMetrics


def log_distance_graph(
    features: Sequence[GraphValue], metrics: HealthyMetrics, references: GraphValue | None = None
) -> GraphValue:
    """Return the logarithms of the distance from the training (windows,), or from references (windows, references).

    ``references`` are features of all kinds side by side, (references, features).
    """
    if references is None:
        from_training = [one - metric.centre for one, metric in zip(features, metrics.kinds(), strict=True)]
        return _mean_log_distance(from_training, metrics)
    spans = pairwise(accumulate(metrics.sizes, initial=0))
    apart = [one.expand(1) - references.part(1, *span) for one, span in zip(features, spans, strict=True)]
    return _mean_log_distance(apart, metrics)


def _mean_log_distance(differences: Sequence[GraphValue], metrics: HealthyMetrics) -> GraphValue:
    kinds = [_log_distance(*pair) for pair in zip(differences, metrics.kinds(), strict=True)]
    return kinds[0].graph.concat([one.expand(0) for one in kinds], axis=0).mean(0)


def _log_distance(difference: GraphValue, metric: HealthyMetric) -> GraphValue:
    relative = difference / metric.scale
    along = relative @ metric.axes
    square = (relative * relative).reduce("Sum", -1) - (along * along * metric.known).reduce("Sum", -1)
    return (square / float(len(metric.scale))).at_least(LEAST_SQUARE).log() * 0.5
