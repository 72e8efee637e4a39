"""Distances of healthy windows from healthy windows: how they are fitted, and measured where they were held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cgsa.nn.assessment import LATEST, SPECIMEN
from cgsa.nn.change import HealthyMetric, HealthyMetrics
from cgsa.offline.held_out import TrainingFeatures
from cgsa.offline.inspection import evenly_spaced
from cgsa.offline.judging import REFERENCE_SECONDS, operating_points
from cgsa.offline.parts import HeldOutPart

LIMIT_SHARE = 0.99
"""Share of the windows of every held-out recording below the limit."""
LEAST_SCALE = 0.1
"""Least scale of a feature, relative to the median of its kind: one that never changes must not decide alone."""
LEAST_SHARE = 1e-9
"""Axes with less than this share of the largest variance are due to rounding."""
LATER_SHARE = 0.5
"""Windows after this share of a recording are judged by the reference of its beginning."""
MAX_REFERENCES = 8
"""Recordings of a machine that are used as references for each held-out recording."""


Groups = tuple[Tensor, ...]
"""Logarithms of the distances of windows, one tensor for each recording or for each pair of recordings."""


@dataclass(frozen=True, eq=False)
class HeldOutDistances:
    """Distances of held-out healthy windows, for each view; a view may have none."""

    general: Groups
    own: Groups
    own_steady: Groups


def by_level(features: TrainingFeatures) -> TrainingFeatures:
    """Return the same windows; if a condition changes during a recording, each level counts as a recording."""
    cells = torch.stack([features.recordings, operating_points(features)], dim=1)
    return replace(features, recordings=torch.unique(cells, dim=0, return_inverse=True)[1])


@torch.no_grad()
def fit_metrics(metrics: HealthyMetrics, features: TrainingFeatures) -> None:
    """Fit the distance of every kind of features to healthy windows."""
    for metric, kind in zip(metrics.kinds(), features.kinds, strict=True):
        fit_metric(metric, kind, features.recordings)


@torch.no_grad()
def fit_metric(metric: HealthyMetric, kind: Tensor, recordings: Tensor) -> None:
    """Fit a distance to healthy windows (windows, features); every recording has the same weight."""
    exact = kind.double()
    names, place = torch.unique(recordings, return_inverse=True)
    counts = torch.bincount(place, minlength=len(names)).to(exact)
    means = torch.zeros(len(names), exact.shape[1], dtype=exact.dtype, device=exact.device)
    means = means.index_add(0, place, exact) / counts[:, None]
    within = (exact - means[place]) / (counts[place] * len(names)).sqrt()[:, None]
    deviation = within.square().sum(dim=0).sqrt()
    least = LEAST_SCALE * float(deviation.median())
    scale = deviation.clamp(min=least if least > 0 else 1.0)
    centre = means.mean(dim=0)
    # Rows whose products are the covariance: scatter within recordings, and between them.
    rows = torch.cat([within, (means - centre) / len(names) ** 0.5]) / scale
    values, vectors = torch.linalg.eigh(rows @ rows.T)
    count = min(metric.known.shape[0], int((values > LEAST_SHARE * values[-1]).sum()))
    metric.centre.copy_(centre)
    metric.scale.copy_(scale)
    metric.axes.zero_()
    metric.known.zero_()
    if count:
        values, vectors = values[-count:], vectors[:, -count:]
        metric.axes[:, :count] = (rows.T @ vectors / values.sqrt()).to(metric.axes)
        # A feature varies by 1 in units of its scale in any case, so that the variance along an axis is that and more.
        metric.known[:count] = (values / (values + 1)).to(metric.known)


def farthest(groups: Sequence[Tensor]) -> Tensor:
    """Return the distance that nearly all windows of every group are within.

    Windows of a recording are alike and recordings at different conditions are not, so that a share of all windows
    would neglect the one condition that is far away.
    """
    return torch.stack([torch.quantile(group, LIMIT_SHARE) for group in groups]).amax()


def shares_samples(features: TrainingFeatures, mask: Tensor) -> Tensor:
    """Return which windows are among some, or overlap one of them."""
    (begin, end), (first, last) = features.spans.unbind(dim=1), features.spans[mask].unbind(dim=1)
    same = features.recordings[:, None] == features.recordings[mask]
    return (same & (begin[:, None] < last) & (end[:, None] > first)).any(dim=1)


def covered_by_limit(part: HeldOutPart, features: TrainingFeatures) -> bool:
    """Return whether the limit accounts for a part: a single operating point, a specimen or later time.

    A whole level of one of several conditions leaves nothing like it in the training. On real machines, a limit for it
    is above all faults.
    """
    return part.part.kind in {SPECIMEN, LATEST} or len(torch.unique(operating_points(features)[part.mask])) == 1


@torch.no_grad()
def held_out_distances(
    metrics: HealthyMetrics, rest: TrainingFeatures, out: TrainingFeatures, window_seconds: float
) -> HeldOutDistances:
    """Return the distances of held-out windows from the training, and from references of the same machine.

    A reference is the beginning of a recording. References at the same conditions are those of the held-out
    recordings themselves, whose second halves are judged; references at other conditions are those of recordings that
    were not held out.
    """
    rows, known = torch.cat(list(out.kinds), dim=1), torch.cat(list(rest.kinds), dim=1)
    general, own, steady = [], [], []
    references = {int(one): _reference(rest, known, int(one), window_seconds) for one in torch.unique(rest.recordings)}
    for recording in torch.unique(out.recordings).tolist():
        mine = out.recordings == recording
        general.append(metrics.log_distance(rows[mine]))
        begin, end = out.spans[mine].unbind(dim=1)
        middle = _middle(begin, end)
        later = mine & (out.spans[:, 0] >= middle)
        if bool(later.any()) and bool(end.min() <= middle):
            steady.append(metrics.log_distance(rows[later], _reference(out, rows, recording, window_seconds)))
        machine = int(out.machines[mine][0])
        same = torch.unique(rest.recordings[rest.machines == machine])
        chosen = same[evenly_spaced(len(same), MAX_REFERENCES, same.device)] if len(same) else same
        own += [metrics.log_distance(rows[mine], references[other]) for other in chosen.tolist()]
    return HeldOutDistances(tuple(general), tuple(own), tuple(steady))


def _reference(features: TrainingFeatures, rows: Tensor, recording: int, window_seconds: float) -> Tensor:
    """Return the mean features of the first windows of a recording, as many as at the start of a machine.

    These are the first window and those that end within a second of it, but none that reach into the second half.
    """
    mine = (features.recordings == recording).nonzero().squeeze(1)
    begin, end = features.spans[mine].unbind(dim=1)
    later = (end - end.min()) * window_seconds / (end - begin)
    first = (later <= REFERENCE_SECONDS * (1 + 1e-9)) & (end <= _middle(begin, end))
    return rows[mine[first | (later == 0)]].mean(dim=0)


def _middle(begin: Tensor, end: Tensor) -> Tensor:
    return torch.lerp(begin.min(), end.max(), LATER_SHARE)
