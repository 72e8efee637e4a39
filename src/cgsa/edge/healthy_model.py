"""The distances of a model of the healthy machine (:mod:`cgsa.nn.change`) as parts of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from cgsa.edge.graph import GraphValue
from cgsa.nn.change import LEAST_SQUARE, ChangeModel, HealthyMetric


def distance_graph(
    features: Sequence[GraphValue], references: GraphValue, model: ChangeModel
) -> tuple[GraphValue, GraphValue]:
    """Return the logarithms of the distance from the training (windows,) and from references (windows, references).

    ``references`` are features of all kinds side by side, (references, features).
    """
    metrics = model.metrics.kinds()
    spans = list(pairwise(accumulate(model.sizes, initial=0)))
    general = [_log_distance(one - metric.centre, metric) for one, metric in zip(features, metrics, strict=True)]
    own = [
        _log_distance(one.expand(1) - references.part(1, *span), metric)
        for one, span, metric in zip(features, spans, metrics, strict=True)
    ]
    return _mean(general), _mean(own)


def _log_distance(difference: GraphValue, metric: HealthyMetric) -> GraphValue:
    relative = difference / metric.scale
    along = relative @ metric.axes
    square = (relative * relative).reduce("Sum", -1) - (along * along * metric.known).reduce("Sum", -1)
    return (square / float(len(metric.scale))).at_least(LEAST_SQUARE).log() * 0.5


def _mean(kinds: Sequence[GraphValue]) -> GraphValue:
    return kinds[0].graph.concat([one.expand(0) for one in kinds], axis=0).mean(0)
