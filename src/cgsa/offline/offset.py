"""Fitting of the check of static offsets, with limits from what was held out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cgsa.nn.known import NEVER
from cgsa.nn.offset import MAX_POINTS, OffsetCheck, OffsetConfig, nearest
from cgsa.offline.held_out import TrainingFeatures
from cgsa.offline.impostors import Impostor
from cgsa.offline.inspection import evenly_spaced

LEAST_SCATTERS, LEAST_DEVIATIONS = 10.0, 1.0
"""A sensor has a static offset if that of a channel is at least this many times its scatter between the windows of a
recording, and this many times the deviation of its samples: less may be the electronics."""
KNOWN_SHARE, FOUND_SHARE = 0.999, 0.95
"""Share of the held-out genuine windows below a limit, and of the held-out imitations above it."""
MARGIN = 2.5
"""How much farther than held-out windows an offset must be to be unlike those of training."""
LEAST_DISTANCE = 1e-6
"""Least distance that counts as usual, as a share of the offset."""
NO_OFFSET = "no static offset, such as gravity: is the sensor connected?"


@dataclass(frozen=True, eq=False)
class FittedOffset:
    """A fitted check of static offsets."""

    config: OffsetConfig
    check: OffsetCheck
    noticed: frozenset[str]
    """Names of the imitations that it notices at conditions held out of it."""
    held_out: Tensor
    """Share of the limit that held-out windows reach, in the order of the parts."""


def static_channels(signals: Iterable[Tensor], features: TrainingFeatures, units: Sequence[str]) -> list[int]:
    """Return the channels of sensors that measure a static offset: all with the unit of one that does."""
    deviation = torch.stack([signal.double().std(dim=1, correction=0) for signal in signals]).median(dim=0).values
    own = [
        features.means[features.recordings == recording].double()
        for recording in sorted(set(features.recordings.tolist()))
    ]
    offset = torch.stack([means.mean(dim=0) for means in own]).square().mean(dim=0).sqrt()
    scatter = torch.stack([means.var(dim=0, correction=0) for means in own]).mean(dim=0).sqrt()
    static = (offset > LEAST_SCATTERS * scatter) & (offset > LEAST_DEVIATIONS * deviation)
    found = {unit for unit, large in zip(units, static.tolist(), strict=True) if large}
    return [channel for channel, unit in enumerate(units) if unit in found]


def fit_offset(
    means: Tensor,
    units: Sequence[str],
    channels: Sequence[int],
    parts: Sequence[tuple[Tensor, Tensor]],
    kinds: Sequence[Impostor],
) -> FittedOffset:
    """Fit the check to the means of training windows.

    Parameters
    ----------
    means
        Of all channels of the training windows, (windows, channels).
    units
        Units of all channels.
    channels
        Those that have a static offset, from :func:`static_channels`.
    parts
        Which windows remain and which are held out, for each part.
    kinds
        What is imitated; see :func:`imitated_means`.
    """
    kept, named = list(channels), imitated_means(means, kinds)
    genuine, imitated = means[:, kept], torch.stack([one.means[:, kept] for one in named])
    scale = offset_scale(genuine, [units[channel] for channel in kept])
    genuine, imitated = genuine / scale, imitated / scale
    distances, from_imitations, own_distances, from_own = [], [], [], []
    for rest, out in parts:
        known, imitations = _points(genuine[rest]), _points(imitated[:, rest])
        distances.append(nearest(genuine[out], known))
        from_imitations.append(nearest(genuine[out], imitations).T)
        own_distances.append(torch.stack([nearest(one, known) for one in imitated[:, out]], dim=1))
        pairs = zip(imitated[:, out], imitations, strict=True)
        from_own.append(torch.stack([nearest(one, points) for one, points in pairs], dim=1))
    distance, usual = torch.cat(distances), torch.cat(distances).median().clamp(min=LEAST_DISTANCE)
    own_distance = torch.cat(own_distances)
    near = distance[:, None] / (torch.cat(from_imitations) + usual)
    own = own_distance / (torch.cat(from_own) + usual)
    limits, farthest = nearness_limits(near, own), MARGIN * torch.quantile(distance, KNOWN_SHARE)
    found = ((own > limits) | (own_distance > farthest)).double().mean(dim=0) >= FOUND_SHARE
    config = OffsetConfig(tuple(kept), len(_points(genuine)), tuple(one.question for one in named))
    check = OffsetCheck(config).to(means)
    for buffer, value in (
        (check.scale, scale),
        (check.genuine, _points(genuine)),
        (check.imitated, _points(imitated)),
        (check.usual, usual),
        (check.limits, limits),
        (check.farthest, farthest),
    ):
        buffer.copy_(value)
    noticed = frozenset(one.name for one, share in zip(named, found.tolist(), strict=True) if share)
    return FittedOffset(config, check.eval(), noticed, torch.maximum((near / limits).amax(dim=1), distance / farthest))


@dataclass(frozen=True, eq=False)
class ImitatedMeans:
    """The means of windows as an imitation has them."""

    name: str
    question: str
    means: Tensor
    """(windows, channels)"""


def imitated_means(means: Tensor, kinds: Sequence[Impostor]) -> list[ImitatedMeans]:
    """Return the means of windows without any offset, and as the imitations have them that change single samples."""
    random = np.random.default_rng(0)
    signal = means.T.double().cpu().numpy()
    found = [ImitatedMeans("no offset", NO_OFFSET, torch.zeros_like(means))]
    for kind in kinds:
        if kind.by_sample:
            changed = torch.from_numpy(kind.imitate(signal, random).T.copy()).to(means)
            found.append(ImitatedMeans(kind.name, kind.question, changed))
    return found


def offset_scale(means: Tensor, units: Sequence[str]) -> Tensor:
    """Return the root mean square of the offset of a sensor, for each of its channels; a sensor has one unit."""
    square = means.double().square().mean(dim=0)
    sums = [sum(float(one) for one, other in zip(square, units, strict=True) if other == unit) for unit in units]
    return torch.tensor(sums).sqrt().to(means)


def nearness_limits(genuine: Tensor, own: Tensor) -> Tensor:
    """Return how many times nearer to an imitation than to training an offset must be; ``NEVER`` if that tells nothing.

    Parameters
    ----------
    genuine
        Of held-out windows, (windows, imitations).
    own
        Of held-out windows of every imitation, (windows, imitations).
    """
    below = torch.quantile(genuine, KNOWN_SHARE, dim=0).clamp(min=1.0)
    above = torch.quantile(own, 1 - FOUND_SHARE, dim=0)
    return torch.where(above > below, (below * above).sqrt(), NEVER)


def _points(means: Tensor) -> Tensor:
    """Return some of the means, (..., windows, channels), to compare with."""
    return means[..., evenly_spaced(means.shape[-2], MAX_POINTS, means.device), :]
