"""Training on healthy recordings alone: distances from them, and limits from what was held out.

No fault is needed. What carries over is how healthy machines vary: within recordings,
and between recordings of different conditions and specimens. Every operating point
and every specimen is held out in turn, and the farthest of them sets the limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from cgsa.data.windows import Windows, WindowSpec
from cgsa.engines.single_threaded import single_threaded
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
    HeldOutHealthy,
)
from cgsa.nn.spectra import ENVELOPE_FRAME, ENVELOPE_HOP, FeatureConfig
from cgsa.offline.ensemble import extract_features
from cgsa.offline.folds import LATEST_SHARE
from cgsa.offline.healthy_distance import (
    HeldOutDistances,
    by_level,
    covered_by_limit,
    farthest,
    fit_metrics,
    held_out_distances,
    shares_samples,
)
from cgsa.offline.held_out import TrainingFeatures
from cgsa.offline.judging import part_name
from cgsa.offline.own_start import compared_kinds
from cgsa.offline.parts import HeldOutPart, Part, held_out_parts
from cgsa.offline.portfolio import ENVELOPE_SAMPLE_RATE, LEAST_FRAME, choose_features, nearest_power_of_two
from cgsa.offline.run import Progress, ProgressCallback

WINDOWS_PER_LENGTH = 4
"""Windows that begin within the length of one: more of them are nearly the same and only cost time."""
LEAST_WIDTH = 0.05
"""Least distance between the limit and the median: closer ones are due to chance in few windows."""


def choose_change_window(spec: WindowSpec) -> WindowSpec:
    """Return windows that overlap less than those of an ensemble; they still share their frames."""
    return replace(spec, step=max(1, spec.length // spec.step // WINDOWS_PER_LENGTH) * spec.step)


def choose_change_features(sample_rate: float, channels: int, spec: WindowSpec) -> ChangeConfig:
    """Return the features for a sensor."""
    ensemble = choose_features(sample_rate, channels, spec)
    lines = [FeatureConfig("spectrum", spec.length)]
    values = nearest_power_of_two((spec.length - ENVELOPE_FRAME) // ENVELOPE_HOP + 1, at_most=True)
    if sample_rate >= ENVELOPE_SAMPLE_RATE and values >= 4 * LEAST_FRAME:
        lines.append(FeatureConfig("envelope", values))
    return ChangeConfig(tuple(ensemble.features[kind] for kind in compared_kinds(ensemble)), tuple(lines))


@single_threaded()
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
    fit_metrics(model.metrics, by_level(features))
    fit_limits(model, [one.distances for one in held_out if one.covered])
    described = replace(manifest, healthy_only=_assess(held_out, manifest))
    trained_on = [list(interval) for interval in windows.intervals]
    return ModelBundle(
        described, model.eval(), None, None, training={"trained_on": trained_on, "windows": len(features)}
    )


@dataclass(frozen=True, eq=False)
class _HeldOut:
    part: Part
    distances: HeldOutDistances
    covered: bool
    """Whether it is a single operating point, a specimen or later time, so that the limit accounts for it."""


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
            fit_metrics(model.metrics, rest)
            distances = held_out_distances(model.metrics, rest, out, window_seconds)
            yield _HeldOut(part.part, distances, covered_by_limit(part, features))
        if report:
            report(Progress("held out", 0, 1, number + 1, len(parts), None))


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
