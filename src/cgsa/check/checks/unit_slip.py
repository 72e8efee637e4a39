"""Recordings in another unit than their siblings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.bands import DoubleArray, band_levels, channels_with_spectrum, expected_levels
from cgsa.check.data_set import MeasuredChannel
from cgsa.check.finding import WARNING
from cgsa.check.siblings import far_above

BANDS = 12
LEAST = np.log(3.0)
"""Smaller factors are no conversion between units; the load of a machine has as much influence."""
NEARLY_ALL = 0.15
"""A conversion moves all bands; the share that may differ, since the noise of the logger is not converted."""
FACTORS = {
    9.81: "m/s² and g",
    1000.0: "thousandths of the unit",
    9810.0: "mm/s² and g",
    25.4: "mm and inches",
    10.0: "a range of the amplifier",
    100.0: "a range of the amplifier, or percent",
    1e6: "millionths of the unit",
}
"""Usual factors between units, and what they convert."""
LIKE = 0.1
"""Difference of logarithms within which a factor is taken for a usual one."""


def find_unit_slips(data: DataSummary) -> Iterator[Finding]:
    """Yield recordings whose whole spectrum is higher or lower than class and operating point predict."""
    slips = [
        (channel.recording.name, name, shift)
        for name in data.channels
        for channels in [channels_with_spectrum(data, name)]
        if channels
        for channel, shift in zip(channels, uniform_shifts(channels), strict=True)
        if shift
    ]
    for recording, found in groupby(sorted(slips), key=lambda slip: slip[0]):
        of_recording = list(found)
        names = ", ".join(name for _, name, _ in of_recording)
        factor = float(np.exp(np.median([shift for *_, shift in of_recording])))
        yield Finding(
            WARNING,
            f"{recording}: the whole spectrum of {names} is {_in_words(factor)} that of its siblings"
            + _likely_units(factor),
            "A model learns the unit instead of the machine: the recording looks like an extreme fault, or like none",
            f"Check the unit of the recording; {'divide' if factor > 1 else 'multiply'} it if it is another one",
            (recording,),
            names if len(of_recording) == 1 else None,
        )


def uniform_shifts(channels: Sequence[MeasuredChannel]) -> DoubleArray:
    """Return the logarithm of the factor of each recording that is out of line; 0 for the others."""
    levels = band_levels(channels, BANDS)
    rest = levels - expected_levels(channels, levels)
    # Positive only if nearly all bands are higher, or nearly all are lower.
    uniform = np.maximum(np.quantile(rest, NEARLY_ALL, axis=1), np.quantile(-rest, NEARLY_ALL, axis=1))
    return np.where(far_above(uniform, least=LEAST), np.median(rest, axis=1), 0.0)


def _in_words(factor: float) -> str:
    return f"{factor:.3g} times" if factor > 1 else f"1/{1 / factor:.3g} of"


def _likely_units(factor: float) -> str:
    size = abs(np.log(factor))
    near = [units for usual, units in FACTORS.items() if abs(size - np.log(usual)) < LIKE]
    return f", as between {near[0]}" if near and "and" in near[0] else f", perhaps {near[0]}" if near else ""


CHECK = Check("recordings in another unit than the others", find_unit_slips, frozenset({"spectrum"}))
