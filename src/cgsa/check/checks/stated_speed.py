"""Recordings whose lines belong to another speed than the stated one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cgsa.check import Check, DataSummary, Finding
from cgsa.check.bands import channels_with_spectrum
from cgsa.check.checks.sample_rate import LEAST_SHIFT, shifted_agreement
from cgsa.check.finding import WARNING
from cgsa.check.lines import PER_OCTAVE, DoubleArray, line_spectra
from cgsa.check.siblings import expected_values, far_above
from cgsa.check.summary import RecordingSummary
from cgsa.data.levels import SPEED_UNITS, unit_of

LEAST_GAIN = 0.3
"""By how much the lines must agree better at another speed, as a correlation."""
AS_GOOD = 0.9
"""Share of the usual agreement that they must reach there."""
LEAST_AGREEMENT = 0.5
"""Usual correlation of spectra over the order (frequency per speed) from which on lines do follow the stated speed."""


def find_wrong_speeds(data: DataSummary) -> Iterator[Finding]:
    """Yield recordings whose lines, as multiples of the stated speed, are where no other recording has them."""
    reported: set[str] = set()
    for condition in sorted({name for one in data.readable for name in one.conditions}):
        for channel in data.channels if unit_of(condition) in SPEED_UNITS else ():
            for one, factor in wrong_speeds(data, channel, condition):
                if one.name in reported:
                    continue
                reported.add(one.name)
                speed = one.conditions[condition]
                yield Finding(
                    WARNING,
                    f"{one.name}: its lines are those of {condition} {factor * speed:.4g}, not of {speed:g} as stated",
                    "Either the speed is wrong, so that the recording counts for a condition it does not show, or the "
                    "sample rate is, and all its frequencies with it",
                    "Compare with the notes of the measurement, and correct the speed or the rate",
                    (one.name,),
                    channel,
                )


def wrong_speeds(data: DataSummary, channel: str, condition: str) -> Iterator[tuple[RecordingSummary, float]]:
    """Yield recordings with the factor by which their lines are above those of the stated speed."""
    channels = [
        one
        for one in channels_with_spectrum(data, channel)
        if one.recording.steady and one.recording.conditions.get(condition, 0.0) > 0
    ]
    speeds = np.array([one.recording.conditions[condition] for one in channels])
    # At a single speed, lines of the machine and lines of its supply cannot be told apart.
    if len(set(speeds)) < 2:
        return
    orders = _over_orders(line_spectra(channels), speeds)
    # The point is no factor: it would explain a wrong speed that most of its recordings have.
    expected = expected_values(orders, [[one.recording.label for one in channels]])
    agreement = shifted_agreement(orders, expected)
    middle = agreement.shape[1] // 2
    best, highest = agreement.argmax(axis=1), agreement.max(axis=1)
    gain = np.where(np.abs(best - middle) >= LEAST_SHIFT, highest - agreement[:, middle], 0.0)
    usual = float(np.median(agreement[:, middle]))
    if usual < LEAST_AGREEMENT:
        return
    for place in np.flatnonzero(far_above(gain, least=LEAST_GAIN) & (highest > AS_GOOD * usual)):
        yield channels[place].recording, float(2 ** ((best[place] - middle) / PER_OCTAVE))


def _over_orders(lines: DoubleArray, speeds: DoubleArray) -> DoubleArray:
    """Shift each spectrum so that equal multiples of the speed are in equal places; 0 where it has no values."""
    shifts = np.round(PER_OCTAVE * np.log2(speeds / np.median(speeds))).astype(int)
    places = np.arange(lines.shape[1]) + shifts[:, None]
    inside = (places >= 0) & (places < lines.shape[1])
    return np.where(inside, np.take_along_axis(lines, places.clip(0, lines.shape[1] - 1), axis=1), 0.0)


CHECK = Check("recordings whose lines tell another speed", find_wrong_speeds, frozenset({"spectrum"}))
