"""Training on healthy recordings alone: distances from them, and limits from conditions that were held out.

No fault is needed. What carries over is how healthy machines vary: within recordings,
and between recordings of different conditions and specimens. The limits are those
of conditions, combinations and specimens that were held out in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cgsa.data.windows import Windows, WindowSpec
from cgsa.errors import DataError
from cgsa.nn.assessment import LATEST
from cgsa.nn.bundle import Manifest, ModelBundle
from cgsa.nn.change import (
    GENERAL,
    OWN,
    OWN_STEADY,
    ChangeAssessment,
    ChangeConfig,
    ChangeModel,
    HealthyMetric,
    HeldOutHealthy,
)
from cgsa.nn.spectra import ENVELOPE_FRAME, ENVELOPE_HOP, FeatureConfig
from cgsa.offline.ensemble import extract_features
from cgsa.offline.folds import LATEST_SHARE
from cgsa.offline.held_out import TrainingFeatures
from cgsa.offline.inspection import evenly_spaced
from cgsa.offline.judging import REFERENCE_SECONDS, operating_points, part_name
from cgsa.offline.parts import HeldOutPart, Part, held_out_parts
from cgsa.offline.portfolio import ENVELOPE_SAMPLE_RATE, LEAST_FRAME, choose_features, nearest_power_of_two
from cgsa.offline.run import Progress, ProgressCallback

SPECTRA = 3
"""Of the averaged spectra of an ensemble, those with the longest frames. On six real machines, the shortest frames,
cepstra, envelopes and statistics carry over worse."""
LIMIT_SHARE = 0.99
"""Share of the held-out healthy windows below the limit."""
LEAST_WIDTH = 0.05
"""Least distance between the limit and the median: closer ones are due to chance in few windows."""
LEAST_SCALE = 0.1
"""Least scale of a feature, relative to the median of its kind: one that never changes must not decide alone."""
LEAST_SHARE = 1e-9
"""Axes with less than this share of the largest variance are due to rounding."""
LATER_SHARE = 0.5
"""Windows after this share of a recording are judged by the reference of its beginning."""
MAX_REFERENCES = 8
"""Recordings of a machine that are used as references for each held-out recording."""


def choose_change_features(sample_rate: float, channels: int, spec: WindowSpec) -> ChangeConfig:
    """Return the features for a sensor."""
    found = choose_features(sample_rate, channels, spec).features
    spectra = [one for one in found if one.kind == "spectrum"][:SPECTRA]
    lines = [FeatureConfig("spectrum", spec.length)]
    values = nearest_power_of_two((spec.length - ENVELOPE_FRAME) // ENVELOPE_HOP + 1, at_most=True)
    if sample_rate >= ENVELOPE_SAMPLE_RATE and values >= 4 * LEAST_FRAME:
        lines.append(FeatureConfig("envelope", values))
    return ChangeConfig((*spectra, *(one for one in found if one.kind == "cross_spectrum")), tuple(lines))


def train_healthy_only(windows: Windows, manifest: Manifest, report: ProgressCallback | None = None) -> ModelBundle:
    """Train a model of the healthy machine, whose features the manifest describes; every window must be healthy."""
    if manifest.change is None:
        raise DataError("the manifest describes no model of the healthy machine")
    if bool((windows.labels != 0).any()):
        raise DataError("some training windows are faulty; expected healthy recordings only")
    model = ChangeModel(manifest.change, len(manifest.channels), windows.spec).to(windows.device)
    features = extract_features(model, windows)
    window_seconds = windows.spec.length / windows.sample_rate
    held_out = list(_hold_out(model, features, window_seconds, report))
    if not held_out:
        raise DataError(
            "the training holds too little to hold any of it out, so that no limit is known; expected healthy "
            "recordings at several conditions, or at least eight windows long"
        )
    fit_metrics(model, features)
    fit_limits(model, [one.distances for one in held_out])
    described = replace(manifest, healthy_only=_assess(held_out, manifest))
    trained_on = [list(interval) for interval in windows.intervals]
    return ModelBundle(
        described, model.eval(), None, None, training={"trained_on": trained_on, "windows": len(features)}
    )


@dataclass(frozen=True, eq=False)
class HeldOutDistances:
    """Logarithms of the distances of held-out healthy windows, for each view; a view may have no windows."""

    general: Tensor
    own: Tensor
    own_steady: Tensor


@dataclass(frozen=True, eq=False)
class _HeldOut:
    part: Part
    distances: HeldOutDistances


@torch.no_grad()
def fit_metrics(model: ChangeModel, features: TrainingFeatures) -> None:
    """Fit the distance of every kind of features to healthy windows."""
    # Where a condition changes during a recording, each of its levels counts as a recording of its own.
    cells = torch.stack([features.recordings, operating_points(features)], dim=1)
    steady = torch.unique(cells, dim=0, return_inverse=True)[1]
    for metric, kind in zip(model.metric_modules(), features.kinds, strict=True):
        fit_metric(metric, kind, steady)


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


@torch.no_grad()
def fit_limits(model: ChangeModel, held_out: Sequence[HeldOutDistances]) -> None:
    """Place the limit of each view so that few healthy windows of held-out parts exceed it."""
    views = {
        GENERAL: [one.general for one in held_out],
        OWN: [one.own for one in held_out],
        OWN_STEADY: [one.own_steady for one in held_out],
    }
    for view, parts in views.items():
        # Without a held-out reference, the limit is that of the training, which is the least sensitive.
        found = torch.cat(parts) if parts and sum(map(len, parts)) else torch.cat(views[GENERAL])
        limit = torch.quantile(found, LIMIT_SHARE)
        model.limits[view] = limit
        model.widths[view] = (limit - found.median()).clamp(min=LEAST_WIDTH)
    # Any conditions include the same ones.
    if model.limits[OWN] < model.limits[OWN_STEADY]:
        model.limits[OWN], model.widths[OWN] = model.limits[OWN_STEADY].clone(), model.widths[OWN_STEADY].clone()


def _hold_out(
    model: ChangeModel, features: TrainingFeatures, window_seconds: float, report: ProgressCallback | None
) -> Iterator[_HeldOut]:
    """Yield the distances of every part of the training from models that were fitted without it.

    If no condition varies, the last quarter of every recording is held out, or else nothing is.
    """
    parts = list(held_out_parts(features.conditions, features.machines))
    begin, end = features.spans.unbind(dim=1)
    if not parts:
        parts = [HeldOutPart(Part(LATEST), begin >= 1 - LATEST_SHARE)]
    for number, part in enumerate(parts):
        rest = features.subset(end <= 1 - LATEST_SHARE if part.part.kind == LATEST else ~part.mask)
        out = features.subset(part.mask)
        if len(rest) and len(out):
            fit_metrics(model, rest)
            yield _HeldOut(part.part, held_out_distances(model, rest, out, window_seconds))
        if report:
            report(Progress("held out", 0, 1, number + 1, len(parts), None))


@torch.no_grad()
def held_out_distances(
    model: ChangeModel, rest: TrainingFeatures, out: TrainingFeatures, window_seconds: float
) -> HeldOutDistances:
    """Return the distances of held-out windows from the training, and from references of the same machine.

    A reference is the first second of a recording. References at the same conditions are those of the held-out
    recordings themselves, whose second halves are judged; references at other conditions are those of recordings that
    were not held out.
    """
    rows, known = torch.cat(list(out.kinds), dim=1), torch.cat(list(rest.kinds), dim=1)
    none = rows.new_zeros(0)
    own, steady = [none], [none]
    references = {int(one): _reference(rest, known, int(one), window_seconds) for one in torch.unique(rest.recordings)}
    for recording in torch.unique(out.recordings).tolist():
        mine = out.recordings == recording
        later = mine & (out.spans[:, 0] >= LATER_SHARE)
        if bool(later.any()) and float(out.spans[mine, 1].min()) <= LATER_SHARE:
            steady.append(model.log_distance(rows[later], _reference(out, rows, recording, window_seconds)))
        machine = int(out.machines[mine][0])
        same = torch.unique(rest.recordings[rest.machines == machine])
        chosen = same[evenly_spaced(len(same), MAX_REFERENCES, same.device)] if len(same) else same
        own += [model.log_distance(rows[mine], references[other]) for other in chosen.tolist()]
    return HeldOutDistances(model.log_distance(rows), torch.cat(own), torch.cat(steady))


def _reference(features: TrainingFeatures, rows: Tensor, recording: int, window_seconds: float) -> Tensor:
    """Return the mean features of the windows within the first second of a recording, at least of its first one."""
    mine = (features.recordings == recording).nonzero().squeeze(1)
    begin, end = features.spans[mine].unbind(dim=1)
    whole = window_seconds / (end - begin)
    first = (end - begin.min()) * whole <= max(REFERENCE_SECONDS, window_seconds) * (1 + 1e-9)
    return rows[mine[first | (begin == begin.min())]].mean(dim=0)


def _assess(held_out: Sequence[_HeldOut], manifest: Manifest) -> ChangeAssessment:
    """Return how often healthy windows were taken for changed, with limits from the other parts."""
    results = []
    for number, one in enumerate(held_out):
        others = [other.distances.general for place, other in enumerate(held_out) if place != number]
        found = one.distances.general
        limit = torch.quantile(torch.cat(others) if others else found, LIMIT_SHARE)
        share = float((found > limit).double().mean())
        results.append(HeldOutHealthy(part_name(one.part, manifest.conditions), len(found), share))
    return ChangeAssessment(tuple(results))
