"""The lines that changed most, each with the name of the part that has such a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import maximum_filter1d

from cgsa.explain.line_families import LineFamily
from cgsa.explain.spectra import AveragedSpectrum, DoubleArray

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
    current: AveragedSpectrum,
    healthy: Sequence[AveragedSpectrum],
    evidence: DoubleArray,
    channels: Sequence[str],
    named: Sequence[tuple[LineFamily, float]],
    speeds: tuple[float, float] | None,
    *,
    envelope: bool = False,
) -> list[ChangedPeak]:
    """Return the clearest peaks, named by the first family in ``named`` (family, slip) that has such a line."""
    lines = [] if speeds is None else named_lines(named, speeds, envelope=envelope)
    peak = (evidence >= maximum_filter1d(evidence, 5, axis=1)) & (evidence >= LEAST_EVIDENCE)
    peak[:, :3] = False
    places = np.argwhere(peak)
    order = np.argsort(-evidence[peak], kind="stable")[:SHOWN_PEAKS]
    logs = current.decibels
    base = [one.decibels for one in healthy]
    found = []
    for channel, line in places[order].tolist():
        near = slice(line - 1, line + 2)
        line = line - 1 + int(logs[channel, near].argmax())  # noqa: PLW2901 - the peak itself
        level = max(one[channel, near].max() for one in base) if base else float(np.median(logs[channel]))
        frequency = line * current.step
        name = next((text for text, at in lines if abs(at - frequency) <= TOLERANCE * current.step), None)
        decibels = float(logs[channel, line] - level)
        found.append(
            ChangedPeak(channels[channel], envelope, frequency, decibels, float(evidence[channel, near].max()), name)
        )
    return found


def named_lines(
    named: Sequence[tuple[LineFamily, float]], speeds: tuple[float, float], *, envelope: bool
) -> list[tuple[str, float]]:
    """Return name and frequency of every line in Hz, in the order of the families."""
    return [
        (line.name, line.frequency(*speeds) * (1 + slip))
        for family, slip in named
        if (family.domain == "envelope") == envelope
        for line in family.lines
    ]


def chance_of_a_name(
    spectrum: AveragedSpectrum, named: Sequence[tuple[LineFamily, float]], speeds: tuple[float, float] | None
) -> float:
    """Return the share of random frequencies up to the highest named one that would get a name."""
    lines = [] if speeds is None else named_lines(named, speeds, envelope=False)
    places = [round(frequency / spectrum.step) for _, frequency in lines]
    places = [place for place in places if 0 < place < spectrum.power.shape[1]]
    if not places:
        return 0.0
    taken = np.zeros(max(places) + 3, bool)
    for place in places:
        taken[max(0, place - 1) : place + 2] = True
    return float(taken.mean())
