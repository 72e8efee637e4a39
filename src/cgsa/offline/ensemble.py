"""Training of an ensemble: fit every member, and weigh the members by what they are worth where they were held out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from cgsa.data.windows import Windows
from cgsa.errors import DataError
from cgsa.nn.bundle import Calibration, Manifest, ModelBundle
from cgsa.nn.ensemble import Ensemble, Heads, combine
from cgsa.nn.novelty import EnsembleDistance, FeatureDistance, join_distances
from cgsa.offline.folds import LATEST_SHARE, condition_levels
from cgsa.offline.inspection import evenly_spaced
from cgsa.offline.linear import FeatureSpace, fit_kernel, fit_lda, fit_logistic
from cgsa.offline.pool import equal_weights, fit_pool, fit_scale
from cgsa.offline.references import HEALTHY
from cgsa.offline.run import Progress, ProgressCallback

MAX_WINDOWS = 1200
"""Windows that are used for fitting, evenly spread over all recordings: neighbours are nearly the same."""
MIN_PER_RECORDING = 4
CHUNK = 256
REFERENCE_SHARE = 0.5
"""How much of the difference between a machine's healthy reference and that of the training is taken off."""
KNOWN_SHARE = 0.995
"""Share of the windows at a held-out condition that must count as known."""


@dataclass(frozen=True, eq=False)
class TrainingFeatures:
    """Features of some training windows, with what is known of each."""

    kinds: Sequence[Tensor]
    """(windows, features) for each kind of features."""
    labels: Tensor
    recordings: Tensor
    machines: Tensor
    conditions: Tensor
    """(windows, conditions)"""
    spans: Tensor
    """Begin and end of every window as shares of its recording, (windows, 2)."""

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, index: Tensor) -> TrainingFeatures:
        """Return some of the windows."""
        return TrainingFeatures(
            [one[index] for one in self.kinds],
            self.labels[index],
            self.recordings[index],
            self.machines[index],
            self.conditions[index],
            self.spans[index],
        )


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Output of members for windows that were held out of their training."""

    name: str
    scores: Tensor
    """(windows, members, classes), without a reference of the machine."""
    shift: Tensor
    """(windows, members, classes): what the whole reference of the machine takes off; 0 without a reference."""
    distance: Tensor
    labels: Tensor
    recordings: Tensor
    latest: bool = False
    """Whether this is the latest part of every recording rather than a condition or a machine."""
    outermost: bool = False
    """Whether this is the lowest or the highest level of a condition."""

    def with_reference(self, share: float = REFERENCE_SHARE) -> Tensor:
        """Return the scores with a share of the reference."""
        return self.scores - share * self.shift


def train_ensemble(windows: Windows, manifest: Manifest, report: ProgressCallback | None = None) -> ModelBundle:
    """Train an ensemble whose shape the manifest describes; it depends on nothing but the windows."""
    if manifest.ensemble is None:
        raise DataError("the manifest describes no ensemble")
    ensemble = Ensemble(manifest.ensemble, len(manifest.channels), windows.spec, len(manifest.classes))
    ensemble.to(windows.device)
    features = extract_features(ensemble, windows)
    held_out = hold_out(features, manifest.ensemble.classifiers, len(manifest.classes), report)
    distance = EnsembleDistance(ensemble).to(windows.device)
    fit_ensemble(ensemble, distance, features, held_out)
    trained_on = [list(interval) for interval in windows.intervals]
    # Few short recordings at one or two levels leave nothing to hold out, so that no limit of the distance is known.
    calibration = _calibration(held_out, len(manifest.ensemble.members)) if held_out else None
    return ModelBundle(
        replace(manifest, calibration=calibration),
        ensemble.eval(),
        None,
        None if calibration is None else distance.eval(),
        training={"trained_on": trained_on, "windows": len(features)},
    )


@torch.no_grad()
def extract_features(ensemble: Ensemble, windows: Windows) -> TrainingFeatures:
    """Fit what the ensemble needs of single channels, and return features of some of the training windows."""
    ensemble.fit_channels(windows.samples)
    borders = windows.first_windows
    if borders is None:
        raise DataError("features are extracted from whole recordings, and these windows are a selection")
    wanted = max(MIN_PER_RECORDING, MAX_WINDOWS // (len(borders) - 1))
    kinds: list[list[Tensor]] = []
    index, spans = [], []
    for first, last in pairwise(borders):
        chosen = evenly_spaced(last - first, wanted, windows.device)
        found = [
            ensemble.extract(windows.gather(slice(begin, min(begin + CHUNK, last))))
            for begin in range(first, last, CHUNK)
        ]
        kinds.append([torch.cat(kind)[chosen] for kind in zip(*found, strict=True)])
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
    )


@dataclass(frozen=True, eq=False)
class HeldOutPart:
    """What is held out together."""

    name: str
    mask: Tensor
    outermost: bool = False


def held_out_parts(features: TrainingFeatures) -> Iterator[HeldOutPart]:
    """Yield what is held out in turn: levels of conditions, their combinations, and machines."""
    levels = [condition_levels(column.contiguous()) for column in features.conditions.unbind(dim=1)]
    varied = [level for level in levels if int(level.max()) > 0]
    for number, level in enumerate(varied, start=1):
        count = int(level.max()) + 1
        # Of two levels one would be left, and a model of one condition says little about a model of two.
        for value in range(count if count > 2 else 0):
            name = f"condition {number}, level {value + 1} of {count}"
            yield HeldOutPart(name, level == value, outermost=value in (0, count - 1))
    if len(varied) > 1:
        pairs, place = torch.unique(torch.stack(varied, dim=1), dim=0, return_inverse=True)
        for number in range(len(pairs)):
            yield HeldOutPart(f"combination {number + 1} of {len(pairs)}", place == number)
    machines = sorted(set(features.machines.tolist()))
    for machine in machines if len(machines) > 1 else ():
        yield HeldOutPart(f"machine {machine}", features.machines == machine)


def hold_out(
    features: TrainingFeatures,
    classifiers: Sequence[str],
    classes: int,
    report: ProgressCallback | None = None,
) -> list[HeldOut]:
    """Return the output of members for every part of the training that was held out of theirs."""
    found = []
    parts = list(held_out_parts(features))
    for number, part in enumerate(parts):
        rest, out = features.subset(~part.mask), features.subset(part.mask)
        if len(set(rest.labels.tolist())) == classes:
            found.append(replace(_hold_out_one(part.name, rest, out, classifiers, classes), outermost=part.outermost))
        if report:
            report(Progress("held out", 0, 1, number + 1, len(parts), None))
    begin, end = features.spans.unbind(dim=1)
    rest, out = features.subset(end <= 1 - LATEST_SHARE), features.subset(begin >= 1 - LATEST_SHARE)
    if len(out) and len(set(rest.labels.tolist())) == classes:
        found.append(replace(_hold_out_one("the last quarter", rest, out, classifiers, classes), latest=True))
    return found


@torch.no_grad()
def _hold_out_one(
    name: str, rest: TrainingFeatures, out: TrainingFeatures, classifiers: Sequence[str], classes: int
) -> HeldOut:
    scores, shifts, distances = [], [], []
    for rest_kind, out_kind in zip(rest.kinds, out.kinds, strict=True):
        space = FeatureSpace(rest_kind)
        healthy = _healthy_mean(rest_kind, rest)
        heads = Heads(rest_kind.shape[1], classifiers, classes).to(rest_kind)
        _fit(heads, space, rest, classifiers, healthy)
        own = heads(out_kind)
        scores.append(own)
        shifts.append(_references(own, out) - heads(heads.healthy[None]))
        distance = FeatureDistance(out_kind.shape[1]).to(out_kind.device)
        space.fit_distance(distance)
        distances.append(distance(out_kind))
    return HeldOut(
        name,
        torch.cat(scores, dim=1),
        torch.cat(shifts, dim=1).nan_to_num(nan=0.0),
        join_distances(distances),
        out.labels,
        out.recordings,
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


def _fit(
    heads: Heads, space: FeatureSpace, features: TrainingFeatures, classifiers: Sequence[str], healthy: Tensor
) -> None:
    """Fit the classifiers of one kind of features."""
    classes, models = heads.shape[1], []
    heads.healthy.copy_(healthy)
    for classifier in classifiers:
        if classifier == "logistic":
            models.append(space.model(*fit_logistic(space.points, features.labels, classes), healthy))
        elif classifier == "lda":
            models.append(space.model(*fit_lda(space.points, features.labels, features.recordings, classes), healthy))
    if models:
        heads.weight.copy_(torch.cat([model.weight for model in models]))
        heads.bias.copy_(torch.cat([model.bias for model in models]))
    if heads.kernel is not None:
        fit_kernel(heads.kernel, space, features.labels, healthy)


@torch.no_grad()
def fit_ensemble(
    ensemble: Ensemble, distance: EnsembleDistance, features: TrainingFeatures, held_out: Sequence[HeldOut]
) -> None:
    """Fit all members and the distance to all training windows, and weigh the members by what was held out."""
    parts = zip(ensemble.head_modules(), distance.kind_modules(), features.kinds, strict=True)
    for head, of_kind, kind in parts:
        space, healthy = FeatureSpace(kind), _healthy_mean(kind, features)
        _fit(head, space, features, ensemble.config.classifiers, healthy)
        space.fit_distance(of_kind)
    ensemble.pool.copy_(pool_weights(held_out, len(ensemble.config.members)))


def pool_weights(held_out: Sequence[HeldOut], members: int) -> Tensor:
    """Return the weights that suit the held-out conditions and machines, with and without a reference.

    Equal ones if there are none: the latest part of every recording is too close to the rest to tell members apart.
    """
    parts = [one for one in held_out if not one.latest]
    if not parts:
        return equal_weights(members)
    pool = fit_pool(*_pooled(parts))
    # Most streams are between the conditions of the training, not beyond them: their confidence is that of the
    # inner levels.
    inner = [one for one in parts if not one.outermost]
    return pool * fit_scale(*_pooled(inner), pool) if inner else pool


def _pooled(parts: Sequence[HeldOut]) -> tuple[Tensor, Tensor, Tensor]:
    """Return scores, labels and recordings of the windows of all parts, with and without a reference."""
    scores = torch.cat([part for one in parts for part in (one.scores, one.with_reference())])
    labels = torch.cat([one.labels.repeat(2) for one in parts])
    # A recording may be held out several times, each time from another training.
    many = 1 + max(int(one.recordings.max()) for one in parts)
    recordings = torch.cat([one.recordings.repeat(2) + many * number for number, one in enumerate(parts)])
    return scores, labels, recordings


def held_out_accuracy(held_out: Sequence[HeldOut], members: int) -> dict[str, float]:
    """Return the accuracy of each part that was held out, with weights fitted to all other parts."""
    found = {}
    for number, one in enumerate(held_out):
        pool = pool_weights([*held_out[:number], *held_out[number + 1 :]], members)
        right = combine(one.scores, pool.to(one.scores)).argmax(dim=1) == one.labels
        classes = [right[one.labels == label].double().mean() for label in set(one.labels.tolist())]
        found[one.name] = float(torch.stack(classes).mean())
    return found


def _calibration(held_out: Sequence[HeldOut], members: int) -> Calibration:
    levels = [one for one in held_out if not one.latest]
    accuracy = held_out_accuracy(held_out, members)
    latest = [accuracy[one.name] for one in held_out if one.latest]
    elsewhere = [accuracy[one.name] for one in levels]
    distances = torch.cat([one.distance for one in levels or held_out])
    return Calibration(
        levels=len(levels),
        accuracy=sum(elsewhere or latest) / max(1, len(elsewhere or latest)),
        latest_accuracy=latest[0] if latest else None,
        # The weights of the members calibrate the probabilities already.
        temperature=1.0,
        distance=float(torch.quantile(distances.double(), KNOWN_SHARE)),
    )
