"""The graphs of a model: from the samples of a batch to features, and from features to scores and distances."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from onnx import TensorProto

from cgsa.edge.classifiers import member_graph
from cgsa.edge.features import cut_windows, feature_graph
from cgsa.edge.graph import GraphBuilder, GraphValue
from cgsa.edge.healthy_model import log_distance_graph
from cgsa.edge.known_checks import known_graph
from cgsa.edge.networks import class_distance_graph, frontend_graph, layer_graph
from cgsa.edge.runner.package import FRONTEND, MODEL, OWN_START
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.change import ChangeModel
from cgsa.nn.distance import TrainingDistance
from cgsa.nn.ensemble import Ensemble
from cgsa.nn.feature_model import FeatureModel
from cgsa.nn.known import KnownCheck
from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.own_start import OwnStart


def kind_of(bundle: ModelBundle) -> str:
    """Return what a bundle holds: ``ensemble``, ``change`` or ``network``."""
    return {Ensemble: "ensemble", ChangeModel: "change", DiagnosisNet: "network"}[type(bundle.model)]


def graphs_of(bundle: ModelBundle, own_start: OwnStart | None = None) -> dict[str, bytes]:
    """Return the contents of the files of a bundle; ``own_start`` is the comparison with a start that is used."""
    found = {FRONTEND: _frontend(bundle), MODEL: _model(bundle)}
    return found if own_start is None else {**found, OWN_START: _own_start(own_start)}


def _frontend(bundle: ModelBundle) -> bytes:
    """Return the graph from ``samples`` (channels, samples) to ``features`` and channel ``means`` of their windows."""
    graph, model, spec = GraphBuilder(), bundle.model, bundle.manifest.window
    samples = graph.input("samples", 2)
    if isinstance(model, FeatureModel):
        found = graph.concat([feature_graph(samples, one, spec) for one in model.feature_modules()], axis=1)
    else:
        found = frontend_graph(samples, model.frontend, spec)
    graph.output("features", found, 2)
    if isinstance(bundle.known, KnownCheck):
        graph.output("means", cut_windows(samples, spec).mean(2).transpose(1, 0), 2)
    return graph.to_bytes()


def _model(bundle: ModelBundle) -> bytes:
    graph, model = GraphBuilder(), bundle.model
    features = graph.input("features", 2)
    if isinstance(model, DiagnosisNet):
        # Any reference is already taken off the features.
        embedding = layer_graph(features, model.F)
        graph.output("scores", layer_graph(embedding, model.G), 2)
        if isinstance(bundle.known, TrainingDistance):
            both = (class_distance_graph(features, bundle.known.inputs), bundle.known.features)
            graph.output("distance", both[0] * class_distance_graph(embedding, both[1]), 1)
        return graph.to_bytes()
    kinds = _split(features, [one.out_features for one in model.feature_modules()])
    if isinstance(model, ChangeModel):
        graph.output("general", log_distance_graph(kinds, model.metrics), 1)
        graph.output("own", log_distance_graph(kinds, model.metrics, graph.input("references", 2)), 2)
        return graph.to_bytes()
    graph.output("scores", member_graph(kinds, model), 3)
    if isinstance(bundle.known, KnownCheck):
        distance, question = known_graph(kinds, graph.input("means", 2), bundle.known)
        graph.output("distance", distance, 1)
        graph.output("question", question, 1, TensorProto.INT64)
    return graph.to_bytes()


def _own_start(own_start: OwnStart) -> bytes:
    """Return the graph from what is compared of windows, ``rows``, and of ``starts`` to ``log_distance`` of both."""
    graph, metrics = GraphBuilder(), own_start.metrics
    rows, starts = graph.input("rows", 2), graph.input("starts", 2)
    graph.output("log_distance", log_distance_graph(_split(rows, metrics.sizes), metrics, starts), 2)
    return graph.to_bytes()


def _split(features: GraphValue, widths: Sequence[int]) -> list[GraphValue]:
    """Return the features of each kind."""
    return [features.part(1, first, end) for first, end in pairwise(accumulate(widths, initial=0))]
