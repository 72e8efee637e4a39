"""The lines that changed most, each with the name of the part that has such a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import maximum_filter1d

from cgsa.explain.evidence import LEAST_POWER, SpectrumComparison
from cgsa.explain.line_families import LineFamily, Speeds
from cgsa.explain.matching import LOWEST_LINE
from cgsa.explain.spectra import AveragedSpectrum

LEAST_EVIDENCE = 3.0
SHOWN_PEAKS = 12
"""Peaks of a spectrum."""
TOLERANCE = 1.5
"""Lines by which a peak may differ from where its name says."""


@dataclass(frozen=True)
class NamedFrequency:
    """A line of a family in the spectrum."""

    name: str
    frequency: float
    """In Hz."""
    decibels: float
    """By how much it is above the healthy machine."""


@dataclass(frozen=True)
class ChangedPeak:
    """A line that stands out of the spectrum and was not there while the machine was healthy."""

    channel: str
    envelope: bool
    """Whether it is in the envelope spectrum."""
    frequency: float
    decibels: float
    """By how much it is above the highest healthy spectrum."""
    evidence: float
    """In standard deviations of the noise."""
    name: str | None
    """None if no part of the machine has such a line."""


def changed_peaks(
    comparison: SpectrumComparison,
    channels: Sequence[str],
    names: Sequence[tuple[str, float]],
    *,
    envelope: bool = False,
) -> list[ChangedPeak]:
    """Return the clearest peaks, with the first of the names (name, frequency) that has such a line."""
    evidence, step = comparison.evidence, comparison.current.step
    is_peak = (evidence >= maximum_filter1d(evidence, 5, axis=1)) & (evidence >= LEAST_EVIDENCE)
    is_peak[:, :LOWEST_LINE] = False
    places = np.argwhere(is_peak)
    # Evidence has an upper bound, so that clear peaks are equal; then the strongest is first.
    power = np.log(np.maximum(comparison.current.power, LEAST_POWER))
    power -= np.median(power, axis=1, keepdims=True)
    order = np.lexsort((-power[is_peak], -evidence[is_peak]))
    found: dict[tuple[int, int], ChangedPeak] = {}
    for channel, line in places[order].tolist():
        if len(found) == SHOWN_PEAKS:
            break
        begin = max(0, line - 1)
        top = begin + int(comparison.current.power[channel][begin : line + 2].argmax())
        name = next((text for text, at in names if abs(at - top * step) <= TOLERANCE * step), None)
        # Clipped evidence has plateaus, whose lines all lead to the same top.
        found.setdefault(
            (channel, top),
            ChangedPeak(
                channels[channel],
                envelope,
                top * step,
                comparison.rise(channel, top),
                float(evidence[channel, line]),
                name,
            ),
        )
    return list(found.values())


def named_lines(
    families: Sequence[tuple[LineFamily, float]], speeds: Speeds, *, envelope: bool
) -> list[tuple[str, float]]:
    """Return name and frequency in Hz of every line of families (family, slip), in their order."""
    return [
        (line.name, line.frequency(speeds) * (1 + slip))
        for family, slip in families
        if (family.domain == "envelope") == envelope
        for line in family.lines
    ]


def chance_of_a_name(spectrum: AveragedSpectrum, names: Sequence[tuple[str, float]]) -> float:
    """Return the share of random frequencies up to the highest named one that would get a name."""
    places = [round(frequency / spectrum.step) for _, frequency in names]
    places = [place for place in places if 0 < place < spectrum.power.shape[1]]
    taken = np.zeros(max(places, default=0) + 2, bool)
    for place in places:
        taken[place - 1 : place + 2] = True
    return float(taken.mean())
