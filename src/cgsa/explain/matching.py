"""Which families of named lines stand out of a spectrum, compared with what random speeds would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import maximum_filter1d

from cgsa.explain.evidence import SpectrumComparison
from cgsa.explain.line_families import LineFamily, Speeds
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
    """Mean evidence of its lines over all channels above that at random speeds, in standard deviations of the latter:
    families of many lines vary less by chance, and so they compare with those of few."""
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
    comparison: SpectrumComparison, family: LineFamily, channels: Sequence[int], speeds: Speeds
) -> FamilyMatch | None:
    """Compare the evidence on the lines of a family with that at random speeds; None if no line is in the spectrum.

    ``channels`` has the index of the channels in which the family may be.
    """
    evidence, step = comparison.evidence[list(channels)], comparison.current.step
    own, slips = family_scores(evidence, step, family, [speeds])
    if not np.isfinite(own).all():
        return None
    factors = _random_factors(2 * RANDOM_SPEEDS).reshape(2, -1).T.tolist()
    others = [Speeds(speeds.shaft * first, speeds.supply * second) for first, second in factors]
    random, _ = family_scores(evidence, step, family, others)
    random = random[np.isfinite(random).all(axis=1)]
    if not len(random):
        return None
    as_good = int((random.mean(axis=1) >= own[0].mean()).sum())
    by_channel = _in_deviations(own[0], random)
    return FamilyMatch(
        family,
        tuple(channels),
        float(_in_deviations(own[0].mean(), random.mean(axis=1))),
        tuple(by_channel.tolist()),
        (1 + as_good) / (1 + len(random)),
        float(slips[0, int(by_channel.argmax())]),
    )


def _in_deviations(own: DoubleArray, random: DoubleArray) -> DoubleArray:
    """Return how far scores are above the mean at random speeds, in standard deviations of the latter."""
    spread = random.std(axis=0)
    return np.asarray((own - random.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def family_scores(
    evidence: DoubleArray, step: float, family: LineFamily, speeds: Sequence[Speeds]
) -> tuple[DoubleArray, DoubleArray]:
    """Return the weighted mean evidence of a family, and the slip at which it is highest, (speeds, channels) each.

    A line counts with the best of its neighbours. Scores are NaN where no line is within the spectrum. ``evidence`` is
    that of every line of every channel, and ``step`` the Hz from line to line.
    """
    weight = np.array([line.weight for line in family.lines])
    lines = evidence.shape[1]
    near = maximum_filter1d(evidence, 3, axis=1)
    shaft, supply = (np.array([getattr(line, name) for line in family.lines]) for name in ("shaft", "supply"))
    turning, fed = (np.array([getattr(one, name) for one in speeds]) for name in ("shaft", "supply"))
    frequencies = np.abs(np.outer(turning, shaft) + np.outer(fed, supply))
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
    return np.asarray(np.exp(rng.uniform(APART, SPREAD, count) * rng.choice([-1.0, 1.0], count)))


def ranked(matches: Sequence[FamilyMatch]) -> list[FamilyMatch]:
    """Return the matches, the strongest of those that speak first.

    A family whose lines all belong to another one that speaks as well is explained by that one: it lends its strength
    and comes after it.
    """
    spoken = [one for one in matches if one.speaks]
    parts = [one for one in matches if any(_contains(other.family, one.family) for other in spoken)]
    found: list[tuple[float, list[FamilyMatch]]] = []
    for one in matches:
        if one in parts:
            continue
        own = [part for part in parts if one.speaks and _contains(one.family, part.family)]
        strength = max(one.strength, *(part.strength for part in own), -np.inf)
        found.append((strength, [replace(one, strength=strength), *own]))
    found.sort(key=lambda group: (not group[1][0].speaks, -group[0]))
    return list(dict.fromkeys(one for _, group in found for one in group))


def _contains(whole: LineFamily, part: LineFamily) -> bool:
    """Return whether a family has all lines of another one, and more."""
    if whole.domain != part.domain or len(part.lines) >= len(whole.lines):
        return False
    lines = {(line.shaft, line.supply) for line in whole.lines}
    return all((line.shaft, line.supply) in lines for line in part.lines)
