"""Training of an ensemble: fit every member, and weigh the members by what they are worth where they were held out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from cgsa.data.windows import Windows
from cgsa.engines.side_by_side import side_by_side
from cgsa.engines.single_threaded import single_threaded
from cgsa.errors import DataError
from cgsa.nn.assessment import LATER, LATEST, Assessment, KnownSpeed, halves
from cgsa.nn.bundle import Calibration, Manifest, ModelBundle
from cgsa.nn.ensemble import Ensemble, EnsembleConfig, Heads, combine
from cgsa.nn.feature_model import FeatureModel
from cgsa.offline.assessment import assess
from cgsa.offline.folds import LATEST_SHARE
from cgsa.offline.heads import HeadInput, fit_heads, head_inputs
from cgsa.offline.held_out import HeldOut, StartDistances, TrainingFeatures
from cgsa.offline.inspection import evenly_spaced
from cgsa.offline.judging import JudgedPart, count_states, faults_from_start, judge_parts
from cgsa.offline.known import fit_known
from cgsa.offline.own_start import compared_kinds, fit_own_start, start_distances
from cgsa.offline.parts import Part, held_out_parts
from cgsa.offline.pool import equal_weights, fit_pool, fit_scale
from cgsa.offline.references import HEALTHY
from cgsa.offline.run import Progress, ProgressCallback

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


@single_threaded()
def train_ensemble(windows: Windows, manifest: Manifest, report: ProgressCallback | None = None) -> TrainedEnsemble:
    """Train an ensemble whose shape the manifest describes; it depends on nothing but the windows."""
    if manifest.ensemble is None:
        raise DataError("the manifest describes no ensemble")
    ensemble = Ensemble(manifest.ensemble, len(manifest.channels), windows.spec, len(manifest.classes))
    ensemble.to(windows.device)
    features = extract_features(ensemble, windows)
    held_out = hold_out(features, manifest.ensemble, len(manifest.classes), report)
    known_speed = fit_ensemble(ensemble, features, held_out)
    known = fit_known(ensemble, windows, features)
    pools = weights_elsewhere(held_out, len(manifest.ensemble.members))
    faults = faults_from_start(held_out, features, manifest)
    own_start = fit_own_start(ensemble, features, windows.spec.length / windows.sample_rate, faults)
    judged = judge_parts(held_out, pools, features, known.distance, manifest, own_start=own_start)
    assessment = replace(assess(ensemble, features, held_out, judged, manifest), known_speed=known_speed)
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
    index, spans = [], []
    for first, last in pairwise(borders):
        chosen = evenly_spaced(last - first, wanted, windows.device)
        index.append(first + chosen)
        begin, whole = chosen * windows.spec.step, (last - first - 1) * windows.spec.step + windows.spec.length
        spans.append(torch.stack([begin, begin + windows.spec.length], dim=1) / whole)
    of_recordings = zip(borders, borders[1:], index, strict=False)
    found = side_by_side(lambda one: _extract_chosen(ensemble, windows, *one), of_recordings)
    *kinds, means = (torch.cat(parts) for parts in zip(*found, strict=True))
    every = torch.cat(index)
    conditions = windows.conditions if windows.conditions is not None else windows.labels.new_zeros(len(windows), 0)
    return TrainingFeatures(
        kinds,
        windows.labels[every],
        windows.segments[every],
        windows.machines[every],
        conditions[every].double(),
        torch.cat(spans),
        means,
    )


def windows_per_recording(recordings: int) -> int:
    """Return how many windows of each recording are used for fitting."""
    least = max(LEAST_PER_RECORDING, min(MIN_PER_RECORDING, MAX_WINDOWS // recordings))
    return max(least, WINDOWS // recordings)


def _extract_chosen(ensemble: FeatureModel, windows: Windows, first: int, last: int, chosen: Tensor) -> list[Tensor]:
    """Return features and means of the chosen windows among those from ``first`` to ``last``, which are a recording."""
    spec, read = windows.spec, windows.gather(chosen)
    means = read.mean(dim=2)
    if len(chosen) * spec.length < (last - first - 1) * spec.step + spec.length:
        return [*ensemble.extract(read), means]
    # Windows that overlap share their frames: all of them together cost less than the chosen ones alone.
    found = [
        ensemble.extract(windows.gather(slice(begin, min(begin + CHUNK, last)))) for begin in range(first, last, CHUNK)
    ]
    return [*(torch.cat(kind)[chosen - first] for kind in zip(*found, strict=True)), means]


@torch.no_grad()
def hold_out(
    features: TrainingFeatures,
    config: EnsembleConfig,
    classes: int,
    report: ProgressCallback | None = None,
) -> list[HeldOut]:
    """Return the output of members for every part of the training that was held out of theirs."""
    splits = [one for one in _splits(features) if len(torch.unique(features.labels[one.rest])) == classes]
    inputs = [(read, read.select(features, config)) for read in head_inputs(config)]
    fits = [_HeldOutFit(split, read, every) for split in splits for read, every in inputs]
    unfinished = Counter(fit.split for fit in fits)

    def done(fit: _HeldOutFit) -> None:
        unfinished[fit.split] -= 1
        if report and not unfinished[fit.split]:
            report(Progress("held out", 0, 1, sum(not left for left in unfinished.values()), len(splits), None))

    scores = side_by_side(lambda fit: fit.scores(config, classes), fits, done=done)
    kinds = compared_kinds(config)
    starts = side_by_side(
        lambda split: start_distances(features.subset(split.rest), features.subset(split.out), kinds), splits
    )
    return [
        split.held_out(features, scores[number * len(inputs) : (number + 1) * len(inputs)], start)
        for number, (split, start) in enumerate(zip(splits, starts, strict=True))
    ]


class _HeadScores(NamedTuple):
    """What a group of classifiers says of windows that were held out of its training, as in :class:`HeldOut`."""

    scores: Tensor
    shift: Tensor
    healthy: Tensor


@dataclass(frozen=True, eq=False)
class _Split:
    """Which windows are held out, and which ones share nothing with them."""

    part: Part
    out: Tensor
    rest: Tensor

    def held_out(self, features: TrainingFeatures, groups: Sequence[_HeadScores], starts: StartDistances) -> HeldOut:
        """Return what all groups of classifiers say."""
        scores, shifts, healthy = zip(*groups, strict=True)
        return HeldOut(
            self.part,
            torch.cat(scores, dim=1),
            torch.cat(shifts, dim=1).nan_to_num(nan=0.0),
            torch.cat(healthy),
            self.out.nonzero().squeeze(1),
            replace(features, kinds=()).subset(self.out),
            starts,
        )


def _splits(features: TrainingFeatures) -> Iterator[_Split]:
    for one in held_out_parts(features.conditions, features.machines):
        yield _Split(one.part, one.mask, ~one.mask)
    begin, end = features.spans.unbind(dim=1)
    latest = _Split(Part(LATEST), begin >= 1 - LATEST_SHARE, end <= 1 - LATEST_SHARE)
    if bool(latest.out.any()):
        yield latest


@dataclass(frozen=True, eq=False)
class _HeldOutFit:
    """A group of classifiers that is fitted without a part."""

    split: _Split
    read: HeadInput
    features: TrainingFeatures
    """All windows with what the group reads."""

    def scores(self, config: EnsembleConfig, classes: int) -> _HeadScores:
        rest, out = self.features.subset(self.split.rest), self.features.subset(self.split.out)
        [fitted], [asked] = rest.kinds, out.kinds
        heads = Heads(fitted.shape[1], config.classifiers, classes, HELD_OUT_TREES).to(fitted)
        fit_heads(heads, rest, config, self.read)
        own, healthy = heads(asked), heads(heads.healthy[None])[0]
        return _HeadScores(own, _references(own, out) - healthy, healthy)


def _references(scores: Tensor, features: TrainingFeatures) -> Tensor:
    """Return for each window the scores of its machine when healthy, among these windows; NaN if it never is."""
    result = torch.full_like(scores, torch.nan)
    for machine in set(features.machines.tolist()):
        own = features.machines == machine
        healthy = own & (features.labels == HEALTHY)
        if bool(healthy.any()):
            result[own] = scores[healthy].mean(dim=0)
    return result


@torch.no_grad()
def fit_ensemble(ensemble: Ensemble, features: TrainingFeatures, held_out: Sequence[HeldOut]) -> KnownSpeed | None:
    """Fit all members to all training windows, and weigh the members by what was held out.

    Returns what a known speed changes; None if no condition is a speed, or if nothing was held out.
    """
    config = ensemble.config
    every = zip([*ensemble.head_modules(), *ensemble.order_head_modules()], head_inputs(config), strict=True)
    side_by_side(lambda one: fit_heads(one[0], one[1].select(features, config), config, one[1]), every)
    members = len(config.members)
    ensemble.pool.copy_(pool_weights(held_out, members))
    if config.speed is None:
        return None
    known_speed = judge_known_speed(held_out, members, ensemble.member_count)
    ensemble.speed_pool.copy_(speed_weights(held_out, members, ensemble.member_count, known_speed))
    return known_speed


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


def speed_weights(held_out: Sequence[HeldOut], members: int, every: int, judged: KnownSpeed | None) -> Tensor:
    """Return the weights of all members where the speed is known, those in orders last.

    Members in orders get none if they take likelihood away at what was held out, or if nothing was.
    """
    if judged is not None and judged.used:
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

    def weights(one: HeldOut) -> Tensor:
        others = [other.subset(~torch.isin(other.index, one.index)) for other in held_out if other is not one]
        weighing = [other for other in others if len(other.index) and other.weighs]
        return pool_weights(weighing, members) if weighing else total * equal_weights(members)

    return side_by_side(weights, held_out)


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
