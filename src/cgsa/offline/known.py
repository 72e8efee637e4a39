"""Fitting of the checks that tell genuine windows from imitations, with limits from what was held out.

Each check is a linear discriminant between genuine windows and one imitation, with
the covariance of the genuine ones: conditions and faults of the training count as
genuine. It is worth what it finds at conditions and on machines that it was fitted
without, so its limit is halfway between genuine windows and imitations there. A
check that cannot separate them there raises no alarm by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear

from cgsa.data.windows import Windows
from cgsa.nn.bundle import Manifest
from cgsa.nn.ensemble import Ensemble
from cgsa.nn.known import NEVER, UNLIKE, KnownCheck, KnownConfig
from cgsa.offline.folds import LATEST_SHARE, condition_levels
from cgsa.offline.held_out import TrainingFeatures
from cgsa.offline.impostors import Impostor, impostors
from cgsa.offline.inspection import evenly_spaced

SHRINKAGE = 1.0
"""Variance that is added to each direction, relative to the mean over all of them."""
MAX_GENUINE = 400
"""Windows to which a check is fitted: neighbours are nearly the same."""
MAX_RECORDINGS, LEAST_IMITATIONS = 64, 48
"""Most recordings that are imitated, and least windows of each imitation."""
MAX_PARTS = 24
KNOWN_SHARE, FOUND_SHARE = 0.999, 0.95
"""Share of the held-out genuine windows below a limit, and of the held-out imitations above it."""
MARGIN = 2.0
"""How much farther than held-out windows a window must be to be unlike everything: a condition of a stream may be
farther from the training than one that was held out of it."""
SCORE_SHRINKAGE = 0.3
"""Share of the correlations between checks that is ignored."""
LEAST_USUAL = 1e-3


@dataclass(frozen=True, eq=False)
class FittedKnown:
    """A fitted check with its description."""

    config: KnownConfig
    check: KnownCheck
    limit: float
    """Distance at which a window is no longer known."""
    distance: Tensor
    """That of every training window where it was held out."""

    def describe(self, manifest: Manifest) -> Manifest:
        """Return a manifest with the checks, and a note on what they do not notice."""
        unnoticed = ", ".join(self.config.unnoticed)
        note = f"at conditions held out of training, these pass for the machine itself: {unnoticed}"
        return replace(manifest, known=self.config, notes=(*manifest.notes, note) if unnoticed else manifest.notes)


@dataclass(frozen=True, eq=False)
class Imitations:
    """Features of imitated windows."""

    features: Tensor
    """(windows, imitations, features)"""
    recordings: Tensor
    """Which recording each window was made from."""


@dataclass(frozen=True, eq=False)
class HeldOutChecks:
    """Scores of windows that were held out of the checks."""

    index: Tensor
    """Which of the training windows the genuine ones are."""
    genuine: Tensor
    """(windows, checks)"""
    imitated: Tensor
    """(windows, imitations, checks)"""


@torch.no_grad()
def fit_known(ensemble: Ensemble, windows: Windows, features: TrainingFeatures) -> FittedKnown:
    """Fit the checks of an ensemble to its training windows and their features."""
    kinds = list(impostors(windows.channels, windows.units))
    imitations = imitate(ensemble, windows, kinds)
    genuine, widths = torch.cat(list(features.kinds), dim=1), [kind.shape[1] for kind in features.kinds]
    held_out = _hold_out(genuine, widths, features, imitations)
    limits, mean, whitening = check_limits(held_out), held_out.genuine.mean(dim=0), whitening_of(held_out.genuine)

    def ratio(scores: Tensor) -> Tensor:
        together = ((scores - mean) @ whitening).square().mean(dim=-1).sqrt()
        return torch.maximum((scores / limits).amax(dim=-1), together)

    found = (ratio(held_out.imitated) > 1).double().mean(dim=0).tolist()
    unnoticed = [
        kind.name for kind, share in zip(kinds, found, strict=True) if share < FOUND_SHARE and kind.question != UNLIKE
    ]
    config = KnownConfig(tuple(kind.question for kind in kinds), tuple(unnoticed))
    check = KnownCheck(config, genuine.shape[1]).to(genuine.device)
    whole = Directions(genuine, imitations.features.mean(dim=0), widths)
    usual = float(ratio(held_out.genuine).median().clamp(min=LEAST_USUAL))
    for buffer, value in (
        (check.centre, whole.centre),
        (check.weight, whole.weight),
        (check.limits, limits),
        (check.mean, mean),
        (check.whitening, whitening),
        (check.imitations, (held_out.imitated.mean(dim=0) - mean) @ whitening),
        (check.usual, torch.tensor(usual)),
    ):
        buffer.copy_(value)
    # A window that was never held out has the distance of the training, one that was several times the largest.
    distance = check(features.kinds)[0]
    distance[held_out.index] = 0
    distance.scatter_reduce_(0, held_out.index, (ratio(held_out.genuine) / usual).to(distance), "amax")
    return FittedKnown(config, check.eval(), 1 / usual, distance)


def _hold_out(
    genuine: Tensor, widths: Sequence[int], features: TrainingFeatures, imitations: Imitations
) -> HeldOutChecks:
    """Return the scores of checks, each for windows that it was fitted without."""
    parts = []
    for rest, out in held_out_windows(features):
        left, asked = features.recordings[rest], features.recordings[out]
        directions = Directions(genuine[rest], _mean_of(imitations, left), widths)
        own = torch.isin(imitations.recordings, asked)
        parts.append(
            HeldOutChecks(
                out.nonzero().squeeze(1),
                directions.scores(genuine[out]).double(),
                directions.scores(imitations.features[own]).double(),
            )
        )
    return HeldOutChecks(*(torch.cat([getattr(part, one.name) for part in parts]) for one in fields(HeldOutChecks)))


@torch.no_grad()
def imitate(ensemble: Ensemble, windows: Windows, kinds: Sequence[Impostor]) -> Imitations:
    """Return the features of imitations of some training windows."""
    signals, length = list(windows.signals()), windows.spec.length
    chosen = evenly_spaced(len(signals), MAX_RECORDINGS, torch.device("cpu")).tolist()
    each = -(-LEAST_IMITATIONS // len(chosen))
    # The same draws for every model, so that a training can be repeated.
    random = np.random.default_rng(0)
    found, recordings = [], []
    for number in chosen:
        signal = signals[number].double().cpu().numpy()
        # Twice the length, of which a signal at half the rate is a window.
        missing = max(0, 2 * length - signal.shape[1])
        signal = np.pad(signal, ((0, 0), (0, missing)), mode="wrap")
        for begin in evenly_spaced(signal.shape[1] - 2 * length + 1, each, torch.device("cpu")).tolist():
            stretch = signal[:, begin : begin + 2 * length]
            batch = np.stack([kind.imitate(stretch, random)[:, :length] for kind in kinds]).astype(np.float32)
            x = torch.from_numpy(batch).to(windows.device)
            found.append(torch.cat(ensemble.extract(x), dim=1))
            recordings.append(number)
    return Imitations(torch.stack(found), torch.tensor(recordings, device=windows.device))


class Directions:
    """Linear discriminants between genuine windows and the means of imitations."""

    def __init__(self, genuine: Tensor, means: Tensor, widths: Sequence[int]) -> None:
        some = genuine[evenly_spaced(len(genuine), MAX_GENUINE, genuine.device)]
        self.centre = some.mean(dim=0)
        deviation = some.std(dim=0, correction=0)
        # Each kind of features has the same weight, and one that never changes must not become infinite.
        parts = torch.split(deviation, list(widths))
        scale = torch.cat([p.clamp(min=1e-3 * float(p.median().clamp(min=1e-9))) * len(p) ** 0.5 for p in parts])
        points, aims = (some - self.centre) / scale, (means - self.centre) / scale
        added = SHRINKAGE * float(points.square().sum(dim=1).mean()) / points.shape[1]
        # The inverse of the covariance, by the smaller matrix of products between windows.
        products = (points @ points.T).double() / len(points)
        products.diagonal().add_(added)
        inner = torch.linalg.solve(products, (points @ aims.T).double() / len(points)).to(points)
        weight = aims - (points.T @ inner).T
        reach = (weight * aims).sum(dim=1, keepdim=True)
        self.weight = weight / reach.clamp(min=1e-12) / scale

    def scores(self, features: Tensor) -> Tensor:
        """Return the scores of windows (..., features): 0 like genuine ones, 1 like the imitation of each check."""
        return linear(features - self.centre, self.weight)


def held_out_windows(features: TrainingFeatures) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield which windows remain and which are held out: levels of conditions, their combinations, and machines.

    Unlike for the accuracy, one of two levels is held out, too: that widens the limits, as few levels should. If
    nothing varies, the latest part of every recording is held out, or else nothing is.
    """
    groups = [condition_levels(column.contiguous()) for column in features.conditions.unbind(dim=1)]
    groups = [group for group in groups if int(group.max()) > 0]
    if len(groups) > 1:
        groups.append(torch.unique(torch.stack(groups, dim=1), dim=0, return_inverse=True)[1])
    machines = torch.unique(features.machines, return_inverse=True)[1]
    groups += [machines] if int(machines.max()) > 0 else []
    parts = [group == value for group in groups for value in range(int(group.max()) + 1)]
    for number in evenly_spaced(len(parts), MAX_PARTS, torch.device("cpu")).tolist():
        yield ~parts[number], parts[number]
    if not parts:
        begin, end = features.spans.unbind(dim=1)
        rest, out = end <= 1 - LATEST_SHARE, begin >= 1 - LATEST_SHARE
        every = torch.ones_like(rest)
        yield (rest, out) if bool(rest.any()) and bool(out.any()) else (every, every)


def check_limits(held_out: HeldOutChecks) -> Tensor:
    """Return the limit of each check, ``NEVER`` if it cannot tell genuine windows from its own imitation."""
    below = torch.quantile(held_out.genuine, KNOWN_SHARE, dim=0)
    above = torch.quantile(held_out.imitated.diagonal(dim1=1, dim2=2), 1 - FOUND_SHARE, dim=0)
    limits = (below + above) / 2
    return torch.where((above > below) & (limits > 0), limits, NEVER)


def whitening_of(scores: Tensor) -> Tensor:
    """Return a matrix that makes held-out scores uncorrelated, and their mean square 1 at the limit."""
    deviation = scores.std(dim=0, correction=0).clamp(min=1e-6)
    relative = (scores - scores.mean(dim=0)) / deviation
    correlation = (1 - SCORE_SHRINKAGE) * relative.T @ relative / len(scores)
    correlation.diagonal().add_(SCORE_SHRINKAGE)
    values, vectors = torch.linalg.eigh(correlation)
    matrix = vectors / values.sqrt() / deviation[:, None]
    size = ((scores - scores.mean(dim=0)) @ matrix).square().mean(dim=1).sqrt()
    scaled: Tensor = matrix / (MARGIN * torch.quantile(size, KNOWN_SHARE).clamp(min=1e-6))
    return scaled


def _mean_of(imitations: Imitations, recordings: Tensor) -> Tensor:
    """Return the mean features of each imitation over some recordings, or over all if none of them was imitated."""
    own = torch.isin(imitations.recordings, recordings)
    return (imitations.features[own] if bool(own.any()) else imitations.features).mean(dim=0)
