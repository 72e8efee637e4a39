"""Calibration: how a model performs at conditions that it has not seen.

A stream brings conditions absent from training, so the training accuracy says
little about it. But training covers several conditions: a model trained without
one of them is, at that condition, in the position of the final model on a
stream. The accuracy of such models there, their confidence, and the distance of
these windows from their training data are the calibration of the model that is
trained on all conditions. No stream is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from cgsa.data.windows import Windows
from cgsa.errors import DataError
from cgsa.nn.bundle import Calibration, ModelBundle
from cgsa.nn.distance import TrainingDistance
from cgsa.nn.smoothing import STATE_LENGTHS, running_mean
from cgsa.offline.config import TrainConfig
from cgsa.offline.folds import Fold, condition_folds, latest_fold
from cgsa.offline.inspection import evenly_spaced
from cgsa.offline.references import HEALTHY, References
from cgsa.offline.run import Progress, ProgressCallback
from cgsa.offline.trainer import train_models

KNOWN_SHARE = 0.99
"""Share of the windows at a held-out condition that must count as known."""
REFERENCE_DRAWS = 4
"""References with which every segment is evaluated."""
MAX_WINDOWS = 8192
"""Windows, evenly spaced, on which a model is evaluated; neighbours overlap, so more would add little."""
TEMPERATURES = torch.logspace(-1, 1, 81, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class _FoldResult:
    """Output of a model for the windows that were held out of its training."""

    fold: Fold
    scores: Tensor
    labels: Tensor
    distance: Tensor
    """Smoothed as it is online."""


def calibrate(
    bundles: Sequence[ModelBundle],
    windows: Windows,
    config: TrainConfig,
    *,
    objective_settings: Mapping[str, object] | None = None,
    device: torch.device | str = "cpu",
    checkpoints: Sequence[Path | None] | None = None,
    report: ProgressCallback | None = None,
) -> list[ModelBundle]:
    """Return trained models with their calibration; this takes one training more than there are levels."""
    folds = condition_folds(windows, [condition.name for condition in bundles[0].manifest.conditions])
    if not folds:
        raise DataError(
            "all training windows have one condition; to evaluate a model at unseen conditions, training must cover "
            "at least two (or leave calibrate off)"
        )
    folders = checkpoints or [None] * len(bundles)
    results: list[list[_FoldResult]] = [[] for _ in bundles]
    for number, fold in enumerate([*folds, latest_fold(windows)]):
        rest, held_out = windows.subset(fold.rest), windows.subset(fold.held_out)
        if bundles[0].network.reference is not None:
            rest, held_out = _machines_healthy_in_both(rest, held_out)
        if not len(held_out) or _classes(rest) < _classes(windows):
            continue
        models = train_models(
            rest,
            [replace(bundle.manifest, discriminator=None, notes=()) for bundle in bundles],
            config,
            objective_settings=objective_settings,
            device=device,
            checkpoints=[None if folder is None else folder / f"without_{number}" for folder in folders],
            report=report and partial(_report_as, f"without {fold.name}", report),
        )
        for found, model in zip(results, models, strict=True):
            found.append(_evaluate(model, fold, rest, held_out, config))
    if all(result.fold.latest for result in results[0]):
        raise DataError(
            "no level of the condition can be left out: the rest must hold all classes, and, for a network with a "
            "reference, some machine must be healthy both there and in the rest (or leave calibrate off)"
        )
    return [_with_calibration(bundle, found, windows, config) for bundle, found in zip(bundles, results, strict=True)]


def fit_temperature(scores: Tensor, labels: Tensor) -> float:
    """Return the temperature, from a grid, that maximises the likelihood of the labels."""
    exact = scores.double()
    losses = [float(cross_entropy(exact / temperature, labels)) for temperature in TEMPERATURES.tolist()]
    return float(TEMPERATURES[losses.index(min(losses))])


def _classes(windows: Windows) -> set[int]:
    return set(windows.labels.tolist())


def _machines_healthy_in_both(rest: Windows, held_out: Windows) -> tuple[Windows, Windows]:
    """Return the windows of machines that were healthy in both parts: the others have no reference."""
    healthy = [set(part.machines[part.labels == HEALTHY].tolist()) for part in (rest, held_out)]
    machines = torch.tensor(sorted(healthy[0] & healthy[1]), dtype=torch.long, device=rest.device)
    return rest.subset(torch.isin(rest.machines, machines)), held_out.subset(torch.isin(held_out.machines, machines))


def _evaluate(model: ModelBundle, fold: Fold, rest: Windows, held_out: Windows, config: TrainConfig) -> _FoldResult:
    """Run a model on the windows held out of its training, with references from the rest."""
    references = _references(model, rest, config)
    some = _some_windows(held_out)
    inputs = _inputs(model, some, references)
    with torch.no_grad():
        scores = model.network.classify(model.network.F(inputs))
    if fold.latest:
        # Its conditions are those of training, so it says nothing about the distance of other conditions.
        return _FoldResult(fold, scores, some.labels, scores.new_empty(0))
    training_distance = _fit_distance(model, rest, references)
    # Online the condition of the window may be absent from training, or that of the reference, or both.
    pairs = [(held_out, references), (rest, _references(model, held_out, config))]
    distance = torch.cat([_distances(model, training_distance, windows, drawn) for windows, drawn in pairs])
    return _FoldResult(fold, scores, some.labels, distance)


@torch.no_grad()
def _distances(
    model: ModelBundle, training_distance: TrainingDistance, windows: Windows, references: References | None
) -> Tensor:
    """Return smoothed distances along every segment; each draw uses one reference for the whole segment, as online."""
    network = model.network
    generator = torch.Generator(windows.device).manual_seed(model.manifest.seed)
    count = max(1, round(STATE_LENGTHS * windows.spec.length / windows.spec.step))
    found = []
    for segment in sorted(set(windows.segments.tolist())):
        own = windows.subset(windows.segments == segment)
        features = torch.cat([network.frontend(x) for _, x in own.batches(MAX_WINDOWS)])
        for _ in range(1 if references is None else REFERENCE_DRAWS):
            drawn = None if references is None else references.draw_own(own.machines[:1], generator)
            inputs = network.inputs(features, drawn)
            # The distance is a product, so its logarithm scatters evenly.
            smoothed = running_mean(training_distance(inputs, network.F(inputs)).log(), count).exp()
            found.append(smoothed[min(count, len(smoothed)) - 1 :])
    return torch.cat(found)


def _with_calibration(
    bundle: ModelBundle, results: Sequence[_FoldResult], windows: Windows, config: TrainConfig
) -> ModelBundle:
    levels = [result for result in results if not result.fold.latest]
    # Confidence is calibrated at interior levels, where most streams are. The distance limit also uses levels slightly
    # outside: taking a known state at a distant condition for unknown is worse than missing an unknown one nearby.
    interior = [result for result in levels if result.fold.interior] or levels
    scores = torch.cat([result.scores for result in interior])
    labels = torch.cat([result.labels for result in interior])
    distance = torch.cat([result.distance for result in levels if result.fold.near])
    # Quantiles of millions of values are refused.
    some = distance[evenly_spaced(len(distance), MAX_WINDOWS, distance.device)]
    calibration = Calibration(
        levels=len(levels),
        accuracy=_accuracy(scores, labels),
        latest_accuracy=next((_accuracy(one.scores, one.labels) for one in results if one.fold.latest), None),
        temperature=fit_temperature(scores, labels),
        distance=float(torch.quantile(some, KNOWN_SHARE)),
    )
    known = _fit_distance(bundle, windows, _references(bundle, windows, config))
    return replace(bundle, manifest=replace(bundle.manifest, calibration=calibration), known=known)


def _accuracy(scores: Tensor, labels: Tensor) -> float:
    return float((scores.argmax(dim=1) == labels).double().mean())


def _fit_distance(model: ModelBundle, windows: Windows, references: References | None) -> TrainingDistance:
    some = _some_windows(windows)
    network = model.network
    distance = TrainingDistance(len(model.manifest.classes), network.frontend.out_features, network.feature_width)
    inputs = _inputs(model, some, references)
    with torch.no_grad():
        distance.to(windows.device).fit(inputs, network.F(inputs), some.labels)
    return distance.eval()


def _references(model: ModelBundle, windows: Windows, config: TrainConfig) -> References | None:
    if model.network.reference is None:
        return None
    generator = torch.Generator().manual_seed(model.manifest.seed)
    return References(windows, model.network, seconds=config.reference_seconds, generator=generator)


@torch.no_grad()
def _inputs(model: ModelBundle, windows: Windows, references: References | None) -> Tensor:
    """Return the network's input for windows, with a reference drawn for each."""
    drawn = None
    if references is not None:
        generator = torch.Generator(windows.device).manual_seed(model.manifest.seed)
        drawn = references.draw(windows.machines, generator)
    parts = [
        model.network.inputs(x, None if drawn is None else drawn[where]) for where, x in windows.batches(MAX_WINDOWS)
    ]
    return torch.cat(parts)


def _some_windows(windows: Windows) -> Windows:
    return windows.subset(evenly_spaced(len(windows), MAX_WINDOWS, windows.device))


def _report_as(name: str, report: ProgressCallback, progress: Progress) -> None:
    report(replace(progress, phase=name))
