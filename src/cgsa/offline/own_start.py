"""Fitting of the comparison with a machine's own healthy start, with limits from what was held out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import log

import torch
from torch import Tensor

from cgsa.nn.change import HealthyMetrics
from cgsa.nn.ensemble import Ensemble, EnsembleConfig
from cgsa.nn.own_start import OwnStart, OwnStartConfig
from cgsa.offline.healthy_distance import (
    LIMIT_SHARE,
    HeldOutDistances,
    by_level,
    farthest,
    fit_metrics,
    held_out_distances,
    shares_samples,
)
from cgsa.offline.held_out import StartDistances, TrainingFeatures
from cgsa.offline.parts import held_out_parts
from cgsa.offline.references import HEALTHY

CLEARANCE = 0.15
"""How far the limit of unchanged windows is below the nearest fault of the training, as a difference of logarithms."""
CHANGED_MULTIPLE = 1.5
"""Multiple of the farthest that a healthy machine was from its start, from which a machine has changed. A healthy
bearing absent from training was at 1.3 times that distance at a speed absent from training."""
SPECTRA = 3
"""Of the averaged spectra of an ensemble, those with the longest frames. On six real machines, the shortest frames,
cepstra, envelopes and statistics carry over worse."""


def compared_kinds(config: EnsembleConfig) -> tuple[int, ...]:
    """Return the kinds of features that tell best whether a machine is still healthy; all if there are no spectra."""
    spectra = [place for place, one in enumerate(config.features) if one.kind == "spectrum"]
    crosses = [place for place, one in enumerate(config.features) if one.kind == "cross_spectrum"]
    return (*spectra[:SPECTRA], *crosses) or tuple(range(len(config.features)))


def healthy_rows(features: TrainingFeatures, kinds: tuple[int, ...]) -> TrainingFeatures:
    """Return the healthy windows, with the kinds of features that are compared."""
    healthy = features.subset(features.labels == HEALTHY)
    return by_level(replace(healthy, kinds=[healthy.kinds[kind] for kind in kinds]))


def start_distances(rest: TrainingFeatures, out: TrainingFeatures, kinds: tuple[int, ...]) -> StartDistances:
    """Return the comparison of held-out windows with a start among them, by a training without them."""
    healthy = healthy_rows(rest, kinds)
    metrics = HealthyMetrics([kind.shape[1] for kind in healthy.kinds]).to(healthy.kinds[0])
    fit_metrics(metrics, healthy)
    return StartDistances(metrics, torch.cat([out.kinds[kind] for kind in kinds], dim=1))


@torch.no_grad()
def fit_own_start(
    ensemble: Ensemble, features: TrainingFeatures, window_seconds: float, faults: Sequence[Tensor]
) -> OwnStart | None:
    """Return the comparison with a start; None if the training is too short to say how healthy machines vary.

    ``faults`` has for each recording of a fault the logarithms of its distance from a healthy start of its machine,
    where both were held out.
    """
    config = OwnStartConfig(compared_kinds(ensemble.config))
    healthy = healthy_rows(features, config.kinds)
    held_out = list(_held_out(healthy, window_seconds))
    steady = [group for one in held_out for group in one.own_steady]
    if not steady:
        return None
    model = OwnStart(config, [kind.shape[1] for kind in features.kinds]).to(features.kinds[0])
    fit_metrics(model.metrics, healthy)
    # What is usual, not the farthest: a window beyond it is not faulty, it is only left to the classifiers. And no
    # fault of the training may be taken for a healthy machine.
    usual = torch.stack([torch.quantile(group, LIMIT_SHARE) for group in steady]).median()
    nearest = [torch.quantile(group, 1 - LIMIT_SHARE) - CLEARANCE for group in faults]
    model.unchanged.copy_(torch.stack([usual, *nearest]).amin())
    # Without another recording of the same machine, how far conditions move it is known from the training alone.
    moved = [group for one in held_out for group in one.own] or [group for one in held_out for group in one.general]
    model.changed.copy_(torch.maximum(farthest(moved), farthest(steady)) + log(CHANGED_MULTIPLE))
    return model.eval()


def _held_out(healthy: TrainingFeatures, window_seconds: float) -> Iterator[HeldOutDistances]:
    """Yield the distances of every operating point, level and specimen from a training without it.

    A whole level counts, unlike in a model of healthy recordings alone: the classifiers are there to notice faults, and
    a load beyond those of the training must not make a healthy machine unknown. If there is only one operating
    point, the distances within its recordings are those of the training itself.
    """
    metrics = HealthyMetrics([kind.shape[1] for kind in healthy.kinds]).to(healthy.kinds[0])
    parts = [part.mask for part in held_out_parts(healthy.conditions, healthy.machines)]
    for mask in parts or [torch.ones_like(healthy.labels, dtype=torch.bool)]:
        rest = healthy.subset(~shares_samples(healthy, mask)) if parts else healthy
        if len(rest):
            fit_metrics(metrics, rest)
            yield held_out_distances(metrics, rest, healthy.subset(mask), window_seconds)
