"""Training of an ensemble: fit every member, and weigh the members by what they are worth where they were held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from cgsa.data.windows import Windows
from cgsa.errors import DataError
from cgsa.nn.assessment import LATER, LATEST, Assessment, KnownSpeed, halves
from cgsa.nn.bundle import Calibration, Manifest, ModelBundle
from cgsa.nn.ensemble import Ensemble, EnsembleConfig, Heads, combine
from cgsa.nn.feature_model import FeatureModel
from cgsa.nn.orders import stretch
from cgsa.offline.assessment import assess
from cgsa.offline.folds import LATEST_SHARE
from cgsa.offline.held_out import HeldOut, TrainingFeatures
from cgsa.offline.inspection import evenly_spaced
from cgsa.offline.judging import JudgedPart, count_states, faults_from_start, judge_parts
from cgsa.offline.known import fit_known
from cgsa.offline.linear import FeatureSpace, fit_kernel, fit_lda, fit_logistic
from cgsa.offline.own_start import compared_kinds, fit_own_start, start_distances
from cgsa.offline.parts import HeldOutPart, Part, held_out_parts
from cgsa.offline.pool import equal_weights, fit_pool, fit_scale
from cgsa.offline.references import HEALTHY
from cgsa.offline.run import Progress, ProgressCallback
from cgsa.offline.stretch import COPIES, recordings_of_copies, with_stretched_copies
from cgsa.offline.trees import fit_trees

WINDOWS, MIN_PER_RECORDING = 480, 8
"""Windows that are used for fitting, evenly spread over all recordings, and the least number per recording: neighbours
are nearly the same, and more of them change little but the time that training takes."""
MAX_WINDOWS, LEAST_PER_RECORDING = 1200, 2
"""Most windows of many recordings, unless fewer would be left of each than the second number."""
CHUNK = 256
UNKNOWN_MULTIPLE = 2.0
"""Multiple of the limit of the known from which a window belongs to no known state. A nearer one only raises a
question, and keeps its diagnosis: a motor at a load beyond the trained ones was at up to 1.8 times the limit, and its
states could still be told apart."""
HELD_OUT_TREES = 40
"""Trees of a model that judges a held-out part: fewer than in the final one, since there are many such models."""


@dataclass(frozen=True, eq=False)
class TrainedEnsemble:
    """A trained ensemble, and how the parts that were held out of its training were judged."""

    bundle: ModelBundle
    judged: Sequence[JudgedPart]


def train_ensemble(windows: Windows, manifest: Manifest, report: ProgressCallback | None = None) -> TrainedEnsemble:
    """Train an ensemble whose shape the manifest describes; it depends on nothing but the windows."""
    if manifest.ensemble is None:
        raise DataError("the manifest describes no ensemble")
    ensemble = Ensemble(manifest.ensemble, len(manifest.channels), windows.spec, len(manifest.classes))
    ensemble.to(windows.device)
    features = extract_features(ensemble, windows)
    held_out = hold_out(features, manifest.ensemble, len(manifest.classes), report)
    fit_ensemble(ensemble, features, held_out)
    known = fit_known(ensemble, windows, features)
    pools = weights_elsewhere(held_out, len(manifest.ensemble.members))
    faults = faults_from_start(held_out, features, manifest)
    own_start = fit_own_start(ensemble, features, windows.spec.length / windows.sample_rate, faults)
    judged = judge_parts(held_out, pools, features, known.distance, manifest, own_start=own_start)
    assessment = assess(ensemble, features, held_out, judged, manifest)
    if manifest.ensemble.speed is not None:
        known_speed = judge_known_speed(held_out, len(manifest.ensemble.members), ensemble.member_count)
        assessment = replace(assessment, known_speed=known_speed)
    trained_on = [list(interval) for interval in windows.intervals]
    # Few short recordings at one or two levels leave nothing to hold out, so that no limit is known.
    calibration = _calibration(held_out, assessment, known.limit) if held_out else None
    described = replace(
        manifest,
        calibration=calibration,
        assessment=assessment,
        own_start=None if own_start is None else own_start.config,
    )
    bundle = ModelBundle(
        known.describe(described) if calibration else described,
        ensemble.eval(),
        None,
        known.check if calibration else None,
        own_start,
        training={"trained_on": trained_on, "windows": len(features)},
    )
    return TrainedEnsemble(bundle, judged)


@torch.no_grad()
def extract_features(ensemble: FeatureModel, windows: Windows) -> TrainingFeatures:
    """Fit what a model needs of single channels, and return features of some of the training windows."""
    ensemble.fit_channels(windows.centred_samples)
    borders = windows.first_windows
    if borders is None:
        raise DataError("features are extracted from whole recordings, and these windows are a selection")
    wanted = windows_per_recording(len(borders) - 1)
    kinds: list[list[Tensor]] = []
    index, spans = [], []
    for first, last in pairwise(borders):
        chosen = evenly_spaced(last - first, wanted, windows.device)
        kinds.append(_extract_chosen(ensemble, windows, first, last, chosen))
        index.append(first + chosen)
        begin, whole = chosen * windows.spec.step, (last - first - 1) * windows.spec.step + windows.spec.length
        spans.append(torch.stack([begin, begin + windows.spec.length], dim=1) / whole)
    every = torch.cat(index)
    conditions = windows.conditions if windows.conditions is not None else windows.labels.new_zeros(len(windows), 0)
    return TrainingFeatures(
        [torch.cat(kind) for kind in zip(*kinds, strict=True)],
        windows.labels[every],
        windows.segments[every],
        windows.machines[every],
        conditions[every].double(),
        torch.cat(spans),
        windows.gather(every).mean(dim=2),
    )


def windows_per_recording(recordings: int) -> int:
    """Return how many windows of each recording are used for fitting."""
    least = max(LEAST_PER_RECORDING, min(MIN_PER_RECORDING, MAX_WINDOWS // recordings))
    return max(least, WINDOWS // recordings)


def _extract_chosen(ensemble: FeatureModel, windows: Windows, first: int, last: int, chosen: Tensor) -> list[Tensor]:
    """Return features of the chosen windows among those from ``first`` to ``last``, which belong to one recording."""
    spec = windows.spec
    if len(chosen) * spec.length < (last - first - 1) * spec.step + spec.length:
        return list(ensemble.extract(windows.gather(first + chosen)))
    # Windows that overlap share their frames: all of them together cost less than the chosen ones alone.
    found = [
        ensemble.extract(windows.gather(slice(begin, min(begin + CHUNK, last)))) for begin in range(first, last, CHUNK)
    ]
    return [torch.cat(kind)[chosen] for kind in zip(*found, strict=True)]


def hold_out(
    features: TrainingFeatures,
    config: EnsembleConfig,
    classes: int,
    report: ProgressCallback | None = None,
) -> list[HeldOut]:
    """Return the output of members for every part of the training that was held out of theirs."""
    found = []
    parts = list(held_out_parts(features.conditions, features.machines))
    for number, part in enumerate(parts):
        rest = features.subset(~part.mask)
        if len(set(rest.labels.tolist())) == classes:
            found.append(_hold_out_one(part, rest, features, config, classes))
        if report:
            report(Progress("held out", 0, 1, number + 1, len(parts), None))
    begin, end = features.spans.unbind(dim=1)
    rest, latest = features.subset(end <= 1 - LATEST_SHARE), HeldOutPart(Part(LATEST), begin >= 1 - LATEST_SHARE)
    if bool(latest.mask.any()) and len(set(rest.labels.tolist())) == classes:
        found.append(_hold_out_one(latest, rest, features, config, classes))
    return found


@torch.no_grad()
def _hold_out_one(
    part: HeldOutPart, rest: TrainingFeatures, features: TrainingFeatures, config: EnsembleConfig, classes: int
) -> HeldOut:
    out = features.subset(part.mask)
    scores, shifts, healthy_scores = [], [], []
    groups = [
        (rest.kinds[place], out.kinds[place], _copied_bins(config, place, stretched=stretched))
        for place, stretched in config.heads
    ]
    groups += [(_in_orders(rest, config, place), _in_orders(out, config, place), None) for place in config.order_heads]
    for fitted, asked, copied_bins in groups:
        heads = Heads(fitted.shape[1], config.classifiers, classes, HELD_OUT_TREES).to(fitted)
        _fit(heads, fitted, rest, config.classifiers, copied_bins)
        own = heads(asked)
        scores.append(own)
        healthy_scores.append(heads(heads.healthy[None])[0])
        shifts.append(_references(own, out) - healthy_scores[-1])
    return HeldOut(
        part.part,
        torch.cat(scores, dim=1),
        torch.cat(shifts, dim=1).nan_to_num(nan=0.0),
        torch.cat(healthy_scores),
        part.mask.nonzero().squeeze(1),
        replace(out, kinds=()),
        start_distances(rest, out, compared_kinds(config)),
    )


def _healthy_mean(kind: Tensor, features: TrainingFeatures) -> Tensor:
    return kind[features.labels == HEALTHY].double().mean(dim=0)


def _references(scores: Tensor, features: TrainingFeatures) -> Tensor:
    """Return for each window the scores of its machine when healthy, among these windows; NaN if it never is."""
    result = torch.full_like(scores, torch.nan)
    for machine in set(features.machines.tolist()):
        own = features.machines == machine
        healthy = own & (features.labels == HEALTHY)
        if bool(healthy.any()):
            result[own] = scores[healthy].mean(dim=0)
    return result


def _copied_bins(config: EnsembleConfig, place: int, *, stretched: bool) -> int | None:
    return config.features[place].envelope_bins if stretched else None


def _in_orders(features: TrainingFeatures, config: EnsembleConfig, place: int) -> Tensor:
    """Return an envelope of the training as at the reference speed."""
    if config.speed is None:
        raise DataError("no condition is a speed")
    # Every training window has a speed; where it is far from the reference, as in a run-up, its lines stay in place.
    factors = config.speed.factors(features.conditions).nan_to_num(nan=1.0)
    return stretch(features.kinds[place], config.features[place].envelope_bins, factors)


def _fit(
    heads: Heads, kind: Tensor, features: TrainingFeatures, classifiers: Sequence[str], copied_bins: int | None
) -> None:
    """Fit the classifiers of one kind of features; with ``copied_bins`` lines, also to copies as at other speeds."""
    labels, recordings = features.labels, features.recordings
    healthy = _healthy_mean(kind, features)
    if copied_bins is not None:
        kind = with_stretched_copies(kind, copied_bins)
        labels, recordings = labels.repeat(1 + COPIES), recordings_of_copies(recordings)
    space, classes, models = FeatureSpace(kind), heads.shape[1], []
    heads.healthy.copy_(healthy)
    for classifier in classifiers:
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


@torch.no_grad()
def fit_ensemble(ensemble: Ensemble, features: TrainingFeatures, held_out: Sequence[HeldOut]) -> None:
    """Fit all members to all training windows, and weigh the members by what was held out."""
    config = ensemble.config
    for head, (place, stretched) in zip(ensemble.head_modules(), config.heads, strict=True):
        _fit(
            head, features.kinds[place], features, config.classifiers, _copied_bins(config, place, stretched=stretched)
        )
    for head, place in zip(ensemble.order_head_modules(), config.order_heads, strict=True):
        _fit(head, _in_orders(features, config, place), features, config.classifiers, None)
    ensemble.pool.copy_(pool_weights(held_out, len(config.members)))
    if config.speed is not None:
        ensemble.speed_pool.copy_(speed_weights(held_out, len(config.members), ensemble.member_count))


def pool_weights(held_out: Sequence[HeldOut], members: int) -> Tensor:
    """Return the weights that suit the held-out conditions and machines, with and without a reference.

    Equal ones if there are none.
    """
    parts = [one for one in held_out if one.weighs]
    if not parts:
        return equal_weights(members)
    pool = fit_pool(*_pooled(parts, members))
    # Most streams are between the conditions of the training, not beyond them: their confidence is that of the
    # inner levels.
    inner = [one for one in parts if not one.part.outermost]
    return pool * fit_scale(*_pooled(inner, members), pool) if inner else pool


def speed_weights(held_out: Sequence[HeldOut], members: int, every: int) -> Tensor:
    """Return the weights of all members where the speed is known, those in orders last.

    Members in orders get none if they take likelihood away at what was held out, or if nothing was.
    """
    found = judge_known_speed(held_out, members, every)
    if found is not None and found.used:
        return pool_weights(held_out, every)
    return torch.cat([pool_weights(held_out, members), torch.zeros(every - members, dtype=torch.float64)])


def judge_known_speed(held_out: Sequence[HeldOut], members: int, every: int) -> KnownSpeed | None:
    """Compare the first members with all of them, those in orders included, at what was held out.

    For each part, the weights are fitted to the other parts. None if no part predicts the accuracy elsewhere.
    """
    parts = [one for one in held_out if one.weighs]
    if not parts:
        return None
    losses, accuracies = [], []
    for count in (members, every):
        pools = weights_elsewhere(parts, count)
        scores = [combine(one.scores.double(), pool) for one, pool in zip(parts, pools, strict=True)]
        losses.append(fmean(float(cross_entropy(own, one.labels)) for own, one in zip(scores, parts, strict=True)))
        confusions = [
            count_states(one.labels, own.argmax(dim=1), classes=own.shape[1], many=own.shape[1])
            for own, one in zip(scores, parts, strict=True)
        ]
        known = [found for one in confusions if (found := halves(one)) is not None]
        accuracies.append(fmean(known) if known else None)
    return KnownSpeed(accuracies[1], accuracies[0], used=losses[1] <= losses[0])


def _pooled(parts: Sequence[HeldOut], members: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return scores of the first members, labels and recordings of all windows, with and without a reference."""
    scores = torch.cat([part[:, :members] for one in parts for part in (one.scores, one.with_reference())])
    labels = torch.cat([one.labels.repeat(2) for one in parts])
    # A recording may be held out several times, each time from another training.
    many = 1 + max(int(one.recordings.max()) for one in parts)
    recordings = torch.cat([one.recordings.repeat(2) + many * number for number, one in enumerate(parts)])
    return scores, labels, recordings


def weights_elsewhere(held_out: Sequence[HeldOut], members: int) -> list[Tensor]:
    """Return for each part that was held out the weights of the members, fitted to the windows outside it.

    If these tell nothing, the weights are equal and as confident as those of the trained ensemble.
    """
    total = pool_weights(held_out, members).sum()
    found = []
    for one in held_out:
        others = [other.subset(~torch.isin(other.index, one.index)) for other in held_out if other is not one]
        weighing = [other for other in others if len(other.index) and other.weighs]
        found.append(pool_weights(weighing, members) if weighing else total * equal_weights(members))
    return found


def _calibration(held_out: Sequence[HeldOut], assessment: Assessment, limit: float) -> Calibration:
    levels = [one for one in held_out if one.weighs]
    latest, leading = assessment.estimates.get(LATER), assessment.leading
    return Calibration(
        levels=len(levels),
        accuracy=0.0 if leading is None else leading.accuracy,
        latest_accuracy=None if latest is None else latest.accuracy,
        # The weights of the members calibrate the probabilities already.
        temperature=1.0,
        distance=limit,
        unknown_distance=UNKNOWN_MULTIPLE * limit,
    )
