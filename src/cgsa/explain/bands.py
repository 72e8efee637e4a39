"""By how much the level of every third octave changed, beyond how it varies while the machine is healthy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cgsa.explain.spectra import DoubleArray, decibels, frame_powers

BAND_FRAME = 1024
"""Samples of a frame; a band is at least as wide as a few of its lines."""
FIRST_LINE = 4
SCATTER = 2.0
"""A change counts from so many standard deviations of the healthy level on."""
GROUP_SECONDS = 0.5
"""Levels are averaged over this time before their scatter is taken."""


@dataclass(frozen=True)
class BandChange:
    """A third octave of a channel that changed."""

    channel: str
    low: float
    high: float
    """In Hz."""
    decibels: float
    """Change of its level; positive if it rose."""
    beyond: float
    """How much of that is beyond the healthy scatter; 0 if it is within."""


def band_changes(
    current: DoubleArray, healthy: Sequence[DoubleArray], rate: float, channels: Sequence[str]
) -> list[BandChange]:
    """Return the change of every band, the largest beyond the healthy scatter first."""
    frame = min(BAND_FRAME, *(one.shape[1] for one in (current, *healthy)))
    edges = third_octave_edges(frame // 2 + 1)
    levels = _band_levels(current, frame, rate, edges)
    usual = np.concatenate([_band_levels(one, frame, rate, edges) for one in healthy])
    change, scatter = levels.mean(axis=0) - usual.mean(axis=0), usual.std(axis=0)
    beyond = np.maximum(np.abs(change) - SCATTER * scatter, 0.0)
    step = rate / frame
    found = [
        BandChange(name, low * step, high * step, float(change[place, band]), float(beyond[place, band]))
        for place, name in enumerate(channels)
        for band, (low, high) in enumerate(edges)
    ]
    return sorted(found, key=lambda one: -one.beyond)


def third_octave_edges(lines: int) -> list[tuple[int, int]]:
    """Return the first line and the one after the last of every third octave, as far as there are lines.

    >>> third_octave_edges(9)
    [(4, 5), (5, 6), (6, 8)]
    """
    count = int(3 * np.log2(max(1.0, lines / FIRST_LINE)))
    edges = [round(FIRST_LINE * 2 ** (number / 3)) for number in range(count + 1)]
    return list(pairwise(edges))


def _band_levels(signal: DoubleArray, frame: int, rate: float, edges: Sequence[tuple[int, int]]) -> DoubleArray:
    """Return the level of every band in dB, averaged over half seconds, (groups, channels, bands)."""
    power = frame_powers(signal, frame, max(1, frame // 2))
    bands = np.stack([power[..., low:high].sum(axis=-1) for low, high in edges], axis=-1)
    group = max(1, min(len(bands), round(GROUP_SECONDS * rate / max(1, frame // 2))))
    whole = len(bands) // group * group
    return decibels(bands[:whole].reshape(-1, group, *bands.shape[1:]).mean(axis=1))
