"""Training of an ensemble: fit every member, and weigh the members by what they are worth where they were held out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cgsa.data.windows import Windows
from cgsa.nn.ensemble import Ensemble, combine
from cgsa.offline.folds import condition_levels
from cgsa.offline.inspection import evenly_spaced
from cgsa.offline.linear import FeatureSpace, LinearModel, fit_lda, fit_logistic
from cgsa.offline.pool import equal_weights, fit_pool

HEALTHY = 0
MAX_WINDOWS = 1200
"""Windows that are used for fitting, evenly spread over all recordings: neighbours are nearly the same."""
MIN_PER_RECORDING = 4
CHUNK = 256
REFERENCE_SHARE = 0.5
"""How much of the difference between a machine's healthy reference and that of the training is taken off."""


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

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, index: Tensor) -> TrainingFeatures:
        """Return some of the windows."""
        kinds = [one[index] for one in self.kinds]
        return TrainingFeatures(
            kinds, self.labels[index], self.recordings[index], self.machines[index], self.conditions[index]
        )


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Scores of members for windows that were held out of their training."""

    name: str
    scores: Tensor
    """(windows, members, classes), without a reference of the machine."""
    shift: Tensor
    """(windows, members, classes): what the whole reference of the machine takes off; 0 without a reference."""
    labels: Tensor
    recordings: Tensor

    def with_reference(self, share: float = REFERENCE_SHARE) -> Tensor:
        """Return the scores with a share of the reference."""
        return self.scores - share * self.shift


@torch.no_grad()
def extract_features(ensemble: Ensemble, windows: Windows) -> TrainingFeatures:
    """Fit the floors of an ensemble's features to training windows, and return features of some of the windows."""
    for module in ensemble.feature_modules():
        module.fit(windows.samples)
    borders = windows.first_windows
    assert borders is not None, "features are extracted from whole recordings"
    recordings = len(borders) - 1
    wanted = max(MIN_PER_RECORDING, MAX_WINDOWS // recordings)
    parts: list[list[Tensor]] = []
    index: list[Tensor] = []
    for first, last in zip(borders[:-1], borders[1:], strict=True):
        chosen = evenly_spaced(last - first, wanted, windows.device)
        found = [
            ensemble.extract(windows.gather(slice(begin, min(begin + CHUNK, last))))
            for begin in range(first, last, CHUNK)
        ]
        parts.append([torch.cat(kind)[chosen] for kind in zip(*found, strict=True)])
        index.append(first + chosen)
    every = torch.cat(index)
    conditions = windows.conditions if windows.conditions is not None else windows.labels.new_zeros(len(windows), 0)
    return TrainingFeatures(
        [torch.cat(kind) for kind in zip(*parts, strict=True)],
        windows.labels[every],
        windows.segments[every],
        windows.machines[every],
        conditions[every].double(),
    )


def held_out_masks(features: TrainingFeatures) -> Iterator[tuple[str, Tensor]]:
    """Yield what is held out in turn, with a name: levels of conditions, their combinations, and machines."""
    levels = [condition_levels(column) for column in features.conditions.unbind(dim=1) if len(column)]
    varied = [level for level in levels if int(level.max()) > 0]
    for number, level in enumerate(varied):
        count = int(level.max()) + 1
        if count > 2:
            for value in range(count):
                yield f"condition {number + 1}, level {value + 1} of {count}", level == value
    if len(varied) > 1:
        pairs, place = torch.unique(torch.stack(varied, dim=1), dim=0, return_inverse=True)
        for number in range(len(pairs)):
            yield f"combination {number + 1} of {len(pairs)}", place == number
    machines = sorted(set(features.machines.tolist()))
    for machine in machines if len(machines) > 1 else ():
        yield f"machine {machine}", features.machines == machine


def hold_out(
    features: TrainingFeatures,
    classifiers: Sequence[str],
    classes: int,
    on_progress: Callable[[str], None] | None = None,
) -> list[HeldOut]:
    """Return the scores of members for every part of the training that was held out of theirs."""
    found = []
    for name, mask in held_out_masks(features):
        rest, out = features.subset(~mask), features.subset(mask)
        if len(set(rest.labels.tolist())) < classes:
            continue
        if on_progress:
            on_progress(name)
        found.append(_hold_out_one(name, rest, out, classifiers, classes))
    return found


def _hold_out_one(
    name: str, rest: TrainingFeatures, out: TrainingFeatures, classifiers: Sequence[str], classes: int
) -> HeldOut:
    scores, shifts = [], []
    for rest_kind, out_kind in zip(rest.kinds, out.kinds, strict=True):
        healthy = rest_kind[rest.labels == HEALTHY].double().mean(dim=0)
        relative = out_kind.double() - healthy
        reference = _references(out_kind, out) - healthy
        for model in _fit(rest_kind, rest, classifiers, classes, healthy):
            scores.append(relative @ model.weight.T + model.bias)
            shifts.append(reference @ model.weight.T)
    shift = torch.stack(shifts, dim=1).nan_to_num(nan=0.0)
    return HeldOut(name, torch.stack(scores, dim=1), shift, out.labels, out.recordings)


def _references(kind: Tensor, features: TrainingFeatures) -> Tensor:
    """Return for each window the healthy features of its machine among these windows; NaN if there are none."""
    exact = kind.double()
    result = torch.full_like(exact, torch.nan)
    for machine in set(features.machines.tolist()):
        own = features.machines == machine
        healthy = own & (features.labels == HEALTHY)
        if bool(healthy.any()):
            result[own] = exact[healthy].mean(dim=0)
    return result


def _fit(
    kind: Tensor, features: TrainingFeatures, classifiers: Sequence[str], classes: int, centre: Tensor
) -> Iterator[LinearModel]:
    space = FeatureSpace(kind)
    for classifier in classifiers:
        if classifier == "logistic":
            weight, bias = fit_logistic(space.points, features.labels, classes)
        else:
            weight, bias = fit_lda(space.points, features.labels, features.recordings, classes)
        yield space.model(weight, bias, centre)


@torch.no_grad()
def fit_ensemble(ensemble: Ensemble, features: TrainingFeatures, held_out: Sequence[HeldOut]) -> None:
    """Fit all members to all training windows, and weigh them by what was held out."""
    for head, kind in zip(ensemble.head_modules(), features.kinds, strict=True):
        healthy = kind[features.labels == HEALTHY].double().mean(dim=0)
        models = list(_fit(kind, features, ensemble.config.classifiers, ensemble.classes, healthy))
        head.healthy.copy_(healthy)
        head.weight.copy_(torch.cat([model.weight for model in models]))
        head.bias.copy_(torch.cat([model.bias for model in models]))
    ensemble.pool.copy_(pool_weights(held_out, len(ensemble.config.members)))


def pool_weights(held_out: Sequence[HeldOut], members: int, **options: float) -> Tensor:
    """Return the weights that suit the held-out windows, with and without a reference; equal ones if there are none."""
    if not held_out:
        return equal_weights(members)
    scores = torch.cat([part for one in held_out for part in (one.scores, one.with_reference())])
    labels = torch.cat([one.labels.repeat(2) for one in held_out])
    recordings = torch.cat([one.recordings.repeat(2) + 1_000_000 * number for number, one in enumerate(held_out)])
    return fit_pool(scores, labels, recordings, **options)


def held_out_accuracy(held_out: Sequence[HeldOut], members: int) -> dict[str, float]:
    """Return the accuracy of each part that was held out, with weights fitted to all other parts."""
    found = {}
    for number, one in enumerate(held_out):
        pool = pool_weights([*held_out[:number], *held_out[number + 1 :]], members)
        right = combine(one.with_reference(), pool.to(one.scores)).argmax(dim=1) == one.labels
        classes = [right[one.labels == label].double().mean() for label in one.labels.unique()]
        found[one.name] = float(torch.stack(classes).mean())
    return found
