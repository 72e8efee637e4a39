"""Fitting of the checks that tell genuine windows from imitations, with limits from what was held out.

Each check is a linear discriminant between genuine windows and one imitation, with
the covariance of the genuine ones: conditions and faults of the training count as
genuine. It is worth what it finds at conditions and on machines that it was fitted
without, so its limit is halfway between genuine windows and imitations there. If it
cannot separate them there, extremely randomised trees may. If these find too few of
the imitations there, the check raises no alarm, and the model says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import linear

from cgsa.data.windows import Windows
from cgsa.engines.side_by_side import side_by_side
from cgsa.nn.bundle import Manifest
from cgsa.nn.ensemble import Ensemble
from cgsa.nn.known import NEVER, UNLIKE, KnownCheck, KnownConfig
from cgsa.offline.folds import LATEST_SHARE, condition_levels
from cgsa.offline.held_out import TrainingFeatures
from cgsa.offline.imitations import Imitations, imitate
from cgsa.offline.impostors import impostors
from cgsa.offline.inspection import evenly_spaced
from cgsa.offline.known_trees import fit_check_trees, held_out_shares, tree_limits
from cgsa.offline.offset import fit_offset, static_channels

SHRINKAGE = 1.0
"""Variance that is added to each direction, relative to the mean over all of them."""
MAX_GENUINE = 400
"""Windows to which a check is fitted: neighbours are nearly the same."""
MAX_PARTS = 24
KNOWN_SHARE, FOUND_SHARE = 0.999, 0.95
"""Share of the held-out genuine windows below a limit, and of the held-out imitations above it."""
MARGIN = 2.5
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
class CheckWindows:
    """Windows that checks are fitted to."""

    genuine: Tensor
    """(windows, features)"""
    recordings: Tensor
    """Which recording each genuine window belongs to."""
    imitations: Imitations

    def fitted(self, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return some genuine windows, and the imitations that were made from their recordings."""
        genuine, imitated = self.held_out(mask)
        # If no recording of the rest was imitated, those of all others have to do.
        return genuine, imitated if len(imitated) else self.imitations.features

    def held_out(self, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return some genuine windows, and the imitations that were made from their recordings, if there are any."""
        return self.genuine[mask], self.imitations.made_from(self.recordings[mask])


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Scores of windows that were held out of the checks."""

    genuine: Tensor
    """(windows, checks)"""
    imitated: Tensor
    """(windows, imitations, checks)"""

    @property
    def own(self) -> Tensor:
        """Scores of every imitation by its own check, (windows, checks)."""
        return self.imitated.diagonal(dim1=1, dim2=2)


@torch.no_grad()
def fit_known(ensemble: Ensemble, windows: Windows, features: TrainingFeatures) -> FittedKnown:
    """Fit the checks of an ensemble to its training windows and their features."""
    kinds = list(impostors(windows.channels, windows.units))
    imitations = imitate(ensemble, windows, kinds)
    genuine, widths = torch.cat(list(features.kinds), dim=1), [kind.shape[1] for kind in features.kinds]
    whole = Directions(genuine, imitations.features.mean(dim=0), widths)
    masks = list(held_out_windows(features))
    every = CheckWindows(genuine, features.recordings, imitations)
    held_out = _hold_out_directions(masks, every, widths)
    limits, mean, whitening = check_limits(held_out), held_out.genuine.mean(dim=0), whitening_of(held_out.genuine)
    by_trees = [n for n, kind in enumerate(kinds) if kind.question != UNLIKE and float(limits[n]) == NEVER]
    decided = _hold_out_trees(masks, every, whole.centre, by_trees, held_out) if by_trees else held_out
    if by_trees:
        limits[by_trees] = tree_limits(decided.genuine[:, by_trees], decided.own[:, by_trees])

    def ratio(scores: Tensor, decided: Tensor) -> Tensor:
        together = ((scores - mean) @ whitening).square().mean(dim=-1).sqrt()
        return torch.maximum((decided / limits).amax(dim=-1), together)

    found = (ratio(held_out.imitated, decided.imitated) > 1).double().mean(dim=0).tolist()
    static = static_channels(windows.signals(), features, windows.units)
    offset = fit_offset(features.means, windows.units, static, masks, kinds) if static else None
    noticed = frozenset() if offset is None else offset.noticed
    unnoticed = [
        kind.name
        for kind, share in zip(kinds, found, strict=True)
        if share < FOUND_SHARE and kind.question != UNLIKE and kind.name not in noticed
    ]
    # Trees that find too little are not kept.
    useful = bool((limits[by_trees] < NEVER).any())
    config = KnownConfig(
        tuple(kind.question for kind in kinds),
        tuple(unnoticed),
        tuple(by_trees) if useful else (),
        None if offset is None else offset.config,
    )
    check = KnownCheck(config, genuine.shape[1]).to(genuine.device)
    if check.trees is not None:
        fit_check_trees(check.trees, genuine - whole.centre, imitations.features[:, by_trees] - whole.centre)
    genuine_ratio = ratio(held_out.genuine, decided.genuine)
    if offset is not None:
        check.offset = offset.check
        genuine_ratio = torch.maximum(genuine_ratio, offset.held_out.to(genuine_ratio))
    usual = float(genuine_ratio.median().clamp(min=LEAST_USUAL))
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
    distance = check(features.kinds, features.means)[0]
    index = torch.cat([out.nonzero().squeeze(1) for _, out in masks])
    distance[index] = 0
    distance.scatter_reduce_(0, index, (genuine_ratio / usual).to(distance), "amax")
    return FittedKnown(config, check.eval(), 1 / usual, distance)


def _hold_out_directions(
    masks: Sequence[tuple[Tensor, Tensor]], every: CheckWindows, widths: Sequence[int]
) -> HeldOutScores:
    """Return the scores of directions, each for windows that it was fitted without."""

    def scores(mask: tuple[Tensor, Tensor]) -> list[Tensor]:
        rest, out = mask
        genuine, imitated = every.fitted(rest)
        directions = Directions(genuine, imitated.mean(dim=0), widths)
        return [directions.scores(windows).double() for windows in every.held_out(out)]

    found = side_by_side(scores, masks)
    return HeldOutScores(*(torch.cat(own) for own in zip(*found, strict=True)))


def _hold_out_trees(
    masks: Sequence[tuple[Tensor, Tensor]],
    every: CheckWindows,
    centre: Tensor,
    checks: Sequence[int],
    directions: HeldOutScores,
) -> HeldOutScores:
    """Return the scores of directions, replaced for some checks by the shares of trees."""

    def shares(mask: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        rest, out = mask
        (genuine, imitated), (genuine_out, imitated_out) = every.fitted(rest), every.held_out(out)
        return held_out_shares(genuine - centre, imitated - centre, genuine_out - centre, imitated_out - centre, checks)

    found = side_by_side(shares, masks)
    decided = HeldOutScores(directions.genuine.clone(), directions.imitated.clone())
    for scores, own in zip((decided.genuine, decided.imitated), zip(*found, strict=True), strict=True):
        scores[..., list(checks)] = torch.cat(own)
    return decided


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


def check_limits(held_out: HeldOutScores) -> Tensor:
    """Return the limit of each check, ``NEVER`` if it cannot tell genuine windows from its own imitation."""
    below = torch.quantile(held_out.genuine, KNOWN_SHARE, dim=0)
    above = torch.quantile(held_out.own, 1 - FOUND_SHARE, dim=0)
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
