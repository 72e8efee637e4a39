"""Fitting of the distance from the known states, with a limit from conditions, machines and faults that were held out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cgsa.nn.states import KindDistance, StateDistance
from cgsa.offline.held_out import TrainingFeatures
from cgsa.offline.inspection import evenly_spaced
from cgsa.offline.known import held_out_windows
from cgsa.offline.linear import class_scatter

SHRINKAGE = 0.3
"""Share of the scatter that is replaced by its mean over all directions."""
MAX_WINDOWS = 320
"""Windows to which distances are fitted: neighbours are nearly the same."""


def fit_kind(kind: KindDistance, features: Tensor, labels: Tensor, recordings: Tensor) -> None:
    """Fit the distance of one kind of features."""
    exact = features.double()
    centre, deviation = exact.mean(dim=0), exact.std(dim=0, correction=0)
    # A feature that never changes in training must not become infinite when it does later.
    scale = deviation.clamp(min=1e-3 * deviation.median().clamp(min=1e-12)) * features.shape[1] ** 0.5
    points = (exact - centre) / scale
    means, rows = class_scatter(points, labels, recordings, len(kind.means))
    # The scatter is the product of these rows with themselves; they are fewer than there are features.
    variance, axes = torch.linalg.eigh(rows @ rows.T)
    level = SHRINKAGE * float(variance.sum()) / min(rows.shape)
    count = min(len(kind.gain), len(variance))
    variance, axes = variance[-count:].clamp(min=1e-12 * variance[-1]), axes[:, -count:]
    kind.centre.copy_(centre)
    kind.scale.copy_(scale)
    kind.means.copy_(means)
    kind.axes.zero_()[:, :count] = (rows.T @ (axes / variance.sqrt())).to(kind.axes)
    kind.gain.zero_()[:count] = (1 - level / ((1 - SHRINKAGE) * variance + level)).to(kind.gain)
    kind.level.fill_(max(level, 1e-30))
