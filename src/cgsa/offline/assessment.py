"""The accuracy of an ensemble where it was not trained, from the parts that were held out of its training."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import torch
from torch import Tensor

from cgsa.nn.assessment import Assessment, MemberResult, TrainingExtent, halves
from cgsa.nn.bundle import Manifest
from cgsa.nn.ensemble import Ensemble
from cgsa.offline.folds import condition_levels
from cgsa.offline.held_out import HeldOut, TrainingFeatures
from cgsa.offline.judging import JudgedPart, count_states, operating_points


@torch.no_grad()
def assess(
    ensemble: Ensemble,
    features: TrainingFeatures,
    held_out: Sequence[HeldOut],
    judged: Sequence[JudgedPart],
    manifest: Manifest,
) -> Assessment:
    """Return what single windows say; decisions joined over time are added where they are made."""
    scores = ensemble.combine(ensemble.member_scores(features.kinds))
    steps = [stream.step for part in judged for stream in part.streams] or [manifest.window.step]
    return Assessment(
        results=tuple(part.result for part in judged),
        members=_members(ensemble, held_out),
        extent=training_extent(features),
        training_accuracy=_accuracy(features.labels, scores) or 0.0,
        seconds_between=fmean(steps) / manifest.sample_rate,
    )


def training_extent(features: TrainingFeatures) -> TrainingExtent:
    """Return how many levels, specimens and recordings a training holds."""
    columns = features.conditions.unbind(dim=1)
    cells = torch.stack([operating_points(features), features.labels, features.recordings], dim=1)
    _, recordings = torch.unique(torch.unique(cells, dim=0)[:, :2], dim=0, return_counts=True)
    return TrainingExtent(
        levels=tuple(int(condition_levels(column.contiguous()).max()) + 1 for column in columns),
        specimens=len(torch.unique(features.machines)),
        repeats=int(recordings.min()),
    )


def _members(ensemble: Ensemble, held_out: Sequence[HeldOut]) -> tuple[MemberResult, ...]:
    weights = ensemble.pool / ensemble.pool.sum()
    parts: Sequence[HeldOut] = [one for one in held_out if one.weighs] or held_out
    found = []
    for place, (name, weight) in enumerate(zip(ensemble.config.members, weights.tolist(), strict=True)):
        own = [_accuracy(one.labels, one.scores[:, place]) for one in parts]
        known = [accuracy for accuracy in own if accuracy is not None]
        found.append(MemberResult(name, weight, fmean(known) if known else None))
    return tuple(found)


def _accuracy(labels: Tensor, scores: Tensor) -> float | None:
    classes = scores.shape[1]
    return halves(count_states(labels, scores.argmax(dim=1), classes=classes, many=classes))
