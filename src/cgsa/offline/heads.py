"""Fitting of the classifiers of one kind of features."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from cgsa.errors import DataError
from cgsa.nn.ensemble import EnsembleConfig, Heads
from cgsa.nn.orders import stretch
from cgsa.offline.held_out import TrainingFeatures
from cgsa.offline.linear import FeatureSpace, fit_kernel, fit_lda, fit_logistic
from cgsa.offline.references import HEALTHY
from cgsa.offline.stretch import COPIES, recordings_of_copies, with_stretched_copies
from cgsa.offline.trees import fit_trees


@dataclass(frozen=True)
class HeadInput:
    """What a group of classifiers reads."""

    place: int
    """Index of the kind of features."""
    stretched: bool = False
    """Whether the group is also fitted to copies as at other speeds."""
    in_orders: bool = False
    """Whether the group reads envelopes as at the reference speed."""

    def select(self, features: TrainingFeatures, config: EnsembleConfig) -> TrainingFeatures:
        """Return the windows with what this group reads as their only kind of features."""
        kind = features.kinds[self.place]
        if self.in_orders:
            if config.speed is None:
                raise DataError("no condition is a speed")
            # Every training window has a speed; where it is far from the reference, as in a run-up, its lines stay in
            # place.
            factors = config.speed.factors(features.conditions).nan_to_num(nan=1.0)
            kind = stretch(kind, config.features[self.place].envelope_bins, factors)
        return replace(features, kinds=[kind])


def head_inputs(config: EnsembleConfig) -> list[HeadInput]:
    """Return the inputs of the groups that need no speed, then of those in orders."""
    without = [HeadInput(place, stretched) for place, stretched in config.heads]
    return [*without, *(HeadInput(place, in_orders=True) for place in config.order_heads)]


@torch.no_grad()
def fit_heads(heads: Heads, features: TrainingFeatures, config: EnsembleConfig, read: HeadInput) -> None:
    """Fit a group of classifiers to windows that have what it reads as their only kind of features."""
    [kind], labels, recordings = features.kinds, features.labels, features.recordings
    healthy = kind[labels == HEALTHY].double().mean(dim=0)
    if read.stretched:
        kind = with_stretched_copies(kind, config.features[read.place].envelope_bins)
        labels, recordings = labels.repeat(1 + COPIES), recordings_of_copies(recordings)
    space, classes, models = FeatureSpace(kind), heads.shape[1], []
    heads.healthy.copy_(healthy)
    for classifier in config.classifiers:
        if classifier == "logistic":
            models.append(space.model(*fit_logistic(space.points, labels, classes), healthy))
        elif classifier == "lda":
            models.append(space.model(*fit_lda(space.points, labels, recordings, classes), healthy))
    if models:
        heads.weight.copy_(torch.cat([model.weight for model in models]))
        heads.bias.copy_(torch.cat([model.bias for model in models]))
    if heads.kernel is not None:
        fit_kernel(heads.kernel, space, labels, healthy)
    if heads.trees is not None:
        fit_trees(heads.trees, kind - heads.healthy, labels)
