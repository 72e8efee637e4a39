"""Which families of named lines stand out of a spectrum, compared with what random speeds would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import maximum_filter1d

from cgsa.explain.line_families import LineFamily
from cgsa.explain.spectra import DoubleArray

RANDOM_SPEEDS = 200
SPREAD, APART = 0.35, 0.03
"""Random speeds are up to this factor away (logarithm), and not closer than the second one."""
SLIPS = 9
"""Values of the slip that are tried."""
LOWEST_LINE = 3
"""Lines below belong to the mean of the signal."""
BY_CHANCE = 0.02
"""A family speaks if fewer random speeds than this share do as well."""


@dataclass(frozen=True, eq=False)
class FamilyMatch:
    """A family of lines and how clearly it stands out."""

    family: LineFamily
    channels: tuple[int, ...]
    """Index of every channel that was searched."""
    strength: float
    """Mean evidence of its lines over all channels, above that of random speeds, in standard deviations of noise."""
    by_channel: tuple[float, ...]
    """The same for every channel."""
    chance: float
    """Share of random speeds that do as well."""
    slip: float
    """Share by which its lines are off, where it is strongest."""

    @property
    def speaks(self) -> bool:
        """Whether it is more than chance."""
        return self.chance <= BY_CHANCE and self.strength > 0

    @property
    def loudest(self) -> int:
        """Index of the channel in which it is clearest."""
        return self.channels[int(np.argmax(self.by_channel))]


def match_family(
    evidence: DoubleArray, step: float, family: LineFamily, channels: Sequence[int], speed: float, supply: float
) -> FamilyMatch | None:
    """Compare the evidence on the lines of a family with that at random speeds; None if no line is in the spectrum.

    Parameters
    ----------
    evidence
        From :func:`~cgsa.explain.evidence.line_evidence`, (channels, lines).
    step
        Hz from line to line.
    channels
        Index of the channels in which the family may be.
    speed, supply
        Of the first shaft and of the supply in Hz.
    """
    chosen = evidence[list(channels)]
    own, slips = family_scores(chosen, step, family, np.array([speed]), np.array([supply]))
    if not np.isfinite(own).all():
        return None
    factors = _random_factors(2 * RANDOM_SPEEDS)
    random, _ = family_scores(
        chosen, step, family, speed * factors[:RANDOM_SPEEDS], supply * factors[RANDOM_SPEEDS:]
    )
    random = random[np.isfinite(random).all(axis=1)]
    if not len(random):
        return None
    excess = own[0] - random.mean(axis=0)
    as_good = int((random.mean(axis=1) >= own[0].mean()).sum())
    return FamilyMatch(
        family,
        tuple(channels),
        float(excess.mean()),
        tuple(excess.tolist()),
        (1 + as_good) / (1 + len(random)),
        float(slips[0, int(excess.argmax())]),
    )


def family_scores(
    evidence: DoubleArray, step: float, family: LineFamily, speeds: DoubleArray, supplies: DoubleArray
) -> tuple[DoubleArray, DoubleArray]:
    """Return the weighted mean evidence of a family, and the slip at which it is highest, (speeds, channels) each.

    A line counts with the best of its neighbours. Scores are NaN where no line is within the spectrum.
    """
    shaft, supply, weight = (
        np.array([getattr(line, name) for line in family.lines]) for name in ("shaft", "supply", "weight")
    )
    lines = evidence.shape[1]
    near = maximum_filter1d(evidence, 3, axis=1)
    frequencies = np.abs(np.outer(speeds, shaft) + np.outer(supplies, supply))
    best = np.full((len(speeds), len(evidence)), np.nan)
    chosen = np.zeros_like(best)
    for slip in np.linspace(-family.slip, family.slip, SLIPS) if family.slip else (0.0,):
        place = np.rint(frequencies * (1 + slip) / step).astype(np.int64)
        counts = np.where((place >= LOWEST_LINE) & (place < lines - 1), weight, 0.0)
        total = counts.sum(axis=1)
        values = (near[:, place.clip(0, lines - 1)] * counts).sum(axis=2).T
        score = np.divide(values, total[:, None], out=np.full_like(values, np.nan), where=total[:, None] > 0)
        better = np.isnan(best) | (score > best)
        best, chosen = np.where(better, score, best), np.where(better, slip, chosen)
    return best, chosen


def _random_factors(count: int) -> DoubleArray:
    """Return factors of the speed that are neither far away nor nearly 1; the same ones every time."""
    rng = np.random.default_rng(0)
    return np.exp(rng.uniform(APART, SPREAD, count) * rng.choice([-1.0, 1.0], count))
