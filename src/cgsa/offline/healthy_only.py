"""Training on healthy recordings alone: distances from them, and limits from what was held out.

No fault is needed. What carries over is how healthy machines vary: within recordings,
and between recordings of different conditions and specimens. Every operating point
and every specimen is held out in turn, and the farthest of them sets the limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cgsa.data.windows import Windows, WindowSpec
from cgsa.errors import DataError
from cgsa.nn.assessment import LATEST, SPECIMEN
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
WINDOWS_PER_LENGTH = 4
"""Windows that begin within the length of one: more of them are nearly the same and only cost time."""
LIMIT_SHARE = 0.99
"""Share of the windows of every held-out recording below the limit."""
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


def choose_change_window(spec: WindowSpec) -> WindowSpec:
    """Return windows that overlap less than those of an ensemble; they still share their frames."""
    return replace(spec, step=max(1, spec.length // spec.step // WINDOWS_PER_LENGTH) * spec.step)


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
    if not any(one.covered for one in held_out):
        raise DataError(
            "the training holds too little to hold any of it out, so that no limit is known; expected healthy "
            "recordings at several conditions, or at least eight windows long"
        )
    fit_metrics(model, by_level(features))
    fit_limits(model, [one.distances for one in held_out if one.covered])
    described = replace(manifest, healthy_only=_assess(held_out, manifest))
    trained_on = [list(interval) for interval in windows.intervals]
    return ModelBundle(
        described, model.eval(), None, None, training={"trained_on": trained_on, "windows": len(features)}
    )


Groups = tuple[Tensor, ...]
"""Logarithms of the distances of windows, one tensor for each recording or for each pair of recordings."""


@dataclass(frozen=True, eq=False)
class HeldOutDistances:
    """Distances of held-out healthy windows, for each view; a view may have none."""

    general: Groups
    own: Groups
    own_steady: Groups


@dataclass(frozen=True, eq=False)
class _HeldOut:
    part: Part
    distances: HeldOutDistances
    covered: bool
    """Whether it is a single operating point, a specimen or later time, so that the limit accounts for it."""


def by_level(features: TrainingFeatures) -> TrainingFeatures:
    """Return the same windows; if a condition changes during a recording, each level counts as a recording."""
    cells = torch.stack([features.recordings, operating_points(features)], dim=1)
    return replace(features, recordings=torch.unique(cells, dim=0, return_inverse=True)[1])


@torch.no_grad()
def fit_metrics(model: ChangeModel, features: TrainingFeatures) -> None:
    """Fit the distance of every kind of features to healthy windows."""
    for metric, kind in zip(model.metric_modules(), features.kinds, strict=True):
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


@torch.no_grad()
def fit_limits(model: ChangeModel, held_out: Sequence[HeldOutDistances]) -> None:
    """Place the limit of each view above the windows of the farthest held-out recording."""
    views = {
        GENERAL: [group for one in held_out for group in one.general],
        OWN: [group for one in held_out for group in one.own],
        OWN_STEADY: [group for one in held_out for group in one.own_steady],
    }
    for view, groups in views.items():
        # Without a held-out reference, the limit is that of the training, which is the least sensitive.
        found = groups or views[GENERAL]
        limit = farthest(found)
        model.limits[view] = limit
        model.widths[view] = (limit - torch.cat(found).median()).clamp(min=LEAST_WIDTH)
    # Any conditions include the same ones.
    if model.limits[OWN] < model.limits[OWN_STEADY]:
        model.limits[OWN], model.widths[OWN] = model.limits[OWN_STEADY].clone(), model.widths[OWN_STEADY].clone()


def farthest(groups: Sequence[Tensor]) -> Tensor:
    """Return the distance that nearly all windows of every group are within.

    Windows of a recording are alike and recordings at different conditions are not, so that a share of all windows
    would neglect the one condition that is far away.
    """
    return torch.stack([torch.quantile(group, LIMIT_SHARE) for group in groups]).amax()


def _hold_out(
    model: ChangeModel, features: TrainingFeatures, window_seconds: float, report: ProgressCallback | None
) -> Iterator[_HeldOut]:
    """Yield the distances of every part of the training from models that were fitted without it.

    If no condition varies, the last quarter of every recording is held out, or else nothing is.
    """
    parts, cells = list(held_out_parts(features.conditions, features.machines)), by_level(features)
    if not parts:
        parts = [HeldOutPart(Part(LATEST), features.spans[:, 0] >= 1 - LATEST_SHARE)]
    for number, part in enumerate(parts):
        rest, out = cells.subset(~shares_samples(features, part.mask)), cells.subset(part.mask)
        if len(rest) and len(out):
            fit_metrics(model, rest)
            distances = held_out_distances(model, rest, out, window_seconds)
            yield _HeldOut(part.part, distances, covered_by_limit(part, features))
        if report:
            report(Progress("held out", 0, 1, number + 1, len(parts), None))


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
    model: ChangeModel, rest: TrainingFeatures, out: TrainingFeatures, window_seconds: float
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
        general.append(model.log_distance(rows[mine]))
        begin, end = out.spans[mine].unbind(dim=1)
        middle = _middle(begin, end)
        later = mine & (out.spans[:, 0] >= middle)
        if bool(later.any()) and bool(end.min() <= middle):
            steady.append(model.log_distance(rows[later], _reference(out, rows, recording, window_seconds)))
        machine = int(out.machines[mine][0])
        same = torch.unique(rest.recordings[rest.machines == machine])
        chosen = same[evenly_spaced(len(same), MAX_REFERENCES, same.device)] if len(same) else same
        own += [model.log_distance(rows[mine], references[other]) for other in chosen.tolist()]
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


def _assess(held_out: Sequence[_HeldOut], manifest: Manifest) -> ChangeAssessment:
    """Return how often healthy windows were taken for changed, with limits from the other parts."""
    covered = [one for one in held_out if one.covered]
    results = []
    for one in held_out:
        others = [group for other in covered if other is not one for group in other.distances.general]
        found = torch.cat(one.distances.general)
        limit = farthest(others or one.distances.general)
        share = float((found > limit).double().mean())
        results.append(HeldOutHealthy(part_name(one.part, manifest.conditions), len(found), share, one.covered))
    limiting = max(covered, key=lambda one: float(farthest(one.distances.general)))
    return ChangeAssessment(tuple(results), part_name(limiting.part, manifest.conditions))
