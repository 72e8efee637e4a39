"""Networks (:mod:`cgsa.nn.mlp`) with their front-ends and the distance from their training as parts of a graph."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from cgsa.data.windows import WindowSpec
from cgsa.edge.features import cut_windows, tapered_lines_graph
from cgsa.edge.graph import GraphValue
from cgsa.errors import BundleError
from cgsa.nn.distance import ClassDistance
from cgsa.nn.dropout import Dropout
from cgsa.nn.frontends import BandFrontend, Frontend, MagnitudeFrontend, RawFrontend, SpectrumFrontend


def frontend_graph(samples: GraphValue, frontend: Frontend, spec: WindowSpec) -> GraphValue:
    """Return the output of a front-end for the windows of samples (channels, samples), (windows, features)."""
    kind = type(frontend)
    if kind not in {RawFrontend, SpectrumFrontend, BandFrontend, MagnitudeFrontend}:
        raise BundleError(f"front-end {kind.__name__} cannot be exported; expected raw, spectrum, bands or magnitudes")
    windows = cut_windows((samples - frontend.mean) / frontend.deviation, spec)
    if not isinstance(frontend, SpectrumFrontend):
        return windows.transpose(1, 0, 2).flatten()
    real, imaginary = tapered_lines_graph(windows, frontend.taper)
    values = (real * real + imaginary * imaginary).sqrt()
    if kind is not MagnitudeFrontend:
        values = (values + frontend.least_magnitude).log()
    if isinstance(frontend, BandFrontend):
        values = values @ _pooling(spec.length // 2, frontend.count(spec.length))
    scaled = (values - frontend.feature_mean[:, None]) / frontend.feature_deviation[:, None]
    return scaled.transpose(1, 0, 2).flatten()


def layer_graph(values: GraphValue, layers: nn.Sequential) -> GraphValue:
    """Return the output of linear layers with rectified units between them."""
    for layer in layers:
        if isinstance(layer, nn.Linear):
            values = values @ layer.weight.detach().T + layer.bias.detach()
        elif isinstance(layer, nn.ReLU):
            values = values.graph.op("Relu", values)
        elif not isinstance(layer, Dropout):
            raise BundleError(f"layer {type(layer).__name__} cannot be exported")
    return values


def class_distance_graph(points: GraphValue, distance: ClassDistance) -> GraphValue:
    """Return the squared distance of every window to the nearest class mean."""
    means = distance.means.double() @ distance.whitening.double()
    apart = (points @ distance.whitening).expand(1) - means
    return (apart * apart).reduce("Sum", -1).reduce("Min", -1) / distance.usual


def _pooling(lines: int, bands: int) -> torch.Tensor:
    """Return the weights with which lines are averaged into bands, (lines, bands), as torch divides them."""
    weights = np.zeros((lines, bands))
    for band in range(bands):
        first, end = band * lines // bands, -(-(band + 1) * lines // bands)
        weights[first:end, band] = 1 / (end - first)
    return torch.from_numpy(weights)
