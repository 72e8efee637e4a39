"""Recordings whose lines are not where their siblings have them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.bands import channels_with_spectrum, expected_levels
from cgsa.check.finding import WARNING
from cgsa.check.lines import PER_OCTAVE, DoubleArray, line_spectra
from cgsa.check.siblings import far_above

OCTAVES = 1.25
"""Wrong rates up to this distance are found."""
LEAST_GAIN = 0.4
"""By how much a shifted spectrum must agree better with the siblings, as a correlation."""
LEAST_SHIFT = 3
"""Smaller shifts, in values of the spectra, may be the slip of a motor: 4 %."""
CONVINCING = 0.6
"""Share of the usual agreement between siblings that the shifted spectrum must reach."""


def find_wrong_rates(data: DataSummary) -> Iterator[Finding]:
    """Yield recordings whose lines agree with those of their siblings only at another sample rate."""
    found: dict[str, list[DoubleArray]] = {}
    for name in data.channels:
        channels = channels_with_spectrum(data, name)
        if channels:
            lines = line_spectra(channels)
            for channel, row in zip(channels, shifted_agreement(lines, expected_levels(channels, lines)), strict=True):
                found.setdefault(channel.recording.name, []).append(row)
    if not found:
        return
    most = min(len(row) for rows in found.values() for row in rows) // 2
    agreement = np.stack([np.mean([_middle(row, most) for row in rows], axis=0) for rows in found.values()])
    best, highest = agreement.argmax(axis=1), agreement.max(axis=1)
    gain = np.where(np.abs(best - most) >= LEAST_SHIFT, highest - agreement[:, most], 0.0)
    wrong = far_above(gain, least=LEAST_GAIN) & (highest > CONVINCING * float(np.median(agreement[:, most])))
    for one in data.readable:
        place = list(found).index(one.name) if one.name in found else None
        if place is None or not wrong[place]:
            continue
        factor = 2 ** ((best[place] - most) / PER_OCTAVE)
        yield Finding(
            WARNING,
            f"{one.name}: its lines are at {factor:.3g} times the frequencies that its siblings have, as if its rate "
            f"were about {one.sample_rate / factor:.5g} Hz and not {one.sample_rate:g} Hz",
            "All features of the recording are at wrong frequencies",
            "Check the rate in the file or at the logger; correct it, and resample the recording",
            (one.name,),
        )


def _middle(row: DoubleArray, most: int) -> DoubleArray:
    """Return the values up to ``most`` shifts in both directions."""
    centre = len(row) // 2
    return row[centre - most : centre + most + 1]


def shifted_agreement(lines: DoubleArray, expected: DoubleArray) -> DoubleArray:
    """Return the correlation of each spectrum with the expected one at every shift; the middle one is no shift."""
    most = min(round(OCTAVES * PER_OCTAVE), lines.shape[1] // 2)
    columns = []
    for shift in range(-most, most + 1):
        own = lines[:, max(0, shift) : lines.shape[1] + min(0, shift)]
        other = expected[:, max(0, -shift) : expected.shape[1] + min(0, -shift)]
        columns.append(_correlation(own, other))
    return np.stack(columns, axis=1)


def _correlation(first: DoubleArray, second: DoubleArray) -> DoubleArray:
    first, second = (values - values.mean(axis=1, keepdims=True) for values in (first, second))
    product = np.sqrt(np.square(first).sum(axis=1) * np.square(second).sum(axis=1))
    return np.asarray((first * second).sum(axis=1) / np.maximum(product, 1e-12))


CHECK = Check("recordings whose lines tell another sample rate", find_wrong_rates, frozenset({"spectrum"}))
