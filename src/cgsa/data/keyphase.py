"""Shaft speed from a key-phase signal: one pulse a revolution.

The pulses are found once over all samples; everything after that works on the
few thousand pulses of a run, so the cost is that of reading the signal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.ndimage import median_filter, minimum_filter1d

from cgsa.data.recording import FloatArray

DoubleArray = npt.NDArray[np.float64]

HIGH = 2.0
"""A pulse begins where the signal rises through this level."""
LOW = 1.0
"""The next pulse counts only after the signal was down here, so noise on an edge makes no second pulse."""
NEIGHBOURS = 15
"""How many periods around a period say what it should be."""
STOP_PERIODS = 8.0
STOP_SECONDS = 0.25
"""No pulse for more than this many periods and seconds means that no speed can be told: it reads 0."""


@dataclass(frozen=True, eq=False)
class ShaftSpeed:
    """Speed over time and what had to be put right to get it."""

    rpm: FloatArray
    """Revolutions a minute at every sample; 0 where there are no pulses."""
    missing: int
    """Pulses that were absent and were bridged."""
    doubled: int
    """Pulses that came between two good ones and were left out."""


def shaft_speed(key_phase: npt.NDArray[np.floating], sample_rate: float) -> ShaftSpeed:
    """Return the speed of a shaft from its key phase.

    Within one turn the speed is that of the whole turn at its middle, and is
    interpolated between the middles of successive turns.
    """
    pulses = pulse_positions(key_phase)
    knots_at: list[DoubleArray] = []
    knots_rpm: list[DoubleArray] = []
    missing = doubled = 0
    for spin in _split_at_stops(pulses, sample_rate):
        kept = _without_doubled(spin)
        if kept.size < 2:
            continue
        periods = np.diff(kept)
        turns = _turns(periods)
        rpm = 60 * sample_rate * turns / periods
        first, last = _edges(kept, key_phase.size, pulses)
        # Just outside a spin the speed is 0: two knots side by side make the step.
        knots_at += [np.r_[first - 1, first], kept[:-1] + periods / 2, np.r_[last, last + 1]]
        knots_rpm += [np.r_[0, rpm[0]], rpm, np.r_[rpm[-1], 0]]
        missing += int(turns.sum()) - turns.size
        doubled += spin.size - kept.size
    trace = np.zeros(key_phase.size, np.float32)
    if knots_at:
        trace[:] = np.interp(np.arange(key_phase.size), np.concatenate(knots_at), np.concatenate(knots_rpm))
    return ShaftSpeed(trace, missing, doubled)


def pulse_positions(key_phase: npt.NDArray[np.floating]) -> DoubleArray:
    """Return where pulses begin, in samples and fractions of a sample."""
    above = key_phase >= HIGH
    rises = np.flatnonzero(above[1:] & ~above[:-1])
    below = key_phase <= LOW
    falls = np.flatnonzero(below[1:] & ~below[:-1])
    # A rise opens a new pulse if the signal came down to LOW since the rise before it.
    falls_before = np.searchsorted(falls, rises)
    rises = rises[np.diff(falls_before, prepend=-1) > 0]
    before, after = key_phase[rises].astype(np.float64), key_phase[rises + 1].astype(np.float64)
    return rises + (HIGH - before) / (after - before)


def _split_at_stops(pulses: DoubleArray, sample_rate: float) -> list[DoubleArray]:
    """Cut the pulses where the shaft stood still, so that each part turned all the time."""
    periods = np.diff(pulses)
    stops = periods > np.maximum(STOP_PERIODS * _usual(periods), STOP_SECONDS * sample_rate)
    return np.split(pulses, np.flatnonzero(stops) + 1)


def _usual(periods: DoubleArray) -> DoubleArray:
    """Return what each period should be by its neighbours; a steady run-up or run-down is its own median."""
    return periods if periods.size == 0 else median_filter(periods, NEIGHBOURS, mode="nearest")


def _without_doubled(pulses: DoubleArray) -> DoubleArray:
    """Leave out pulses without which the turn around them has its usual length."""
    while pulses.size > 2:
        periods = np.diff(pulses)
        usual = _usual(periods)
        odd = np.minimum(np.abs(periods / usual - 1), 1)
        merged = np.abs((periods[1:] + periods[:-1]) / np.maximum(usual[1:], usual[:-1]) - 1)
        # Beside a doubled pulse the good ones look suspicious too, but the turns around them are odd as well.
        misfit = merged + np.r_[0, odd[:-2]] + np.r_[odd[2:], 0]
        misfit[merged > 0.4] = np.inf
        # One pulse of a neighbourhood at a time: the next pass judges the others by what is left.
        best = minimum_filter1d(misfit, 2 * 4 + 1, mode="constant", cval=np.inf)
        doubled = np.isfinite(misfit) & (misfit == best)
        if not doubled.any():
            break
        pulses = pulses[~np.r_[False, doubled, False]]
    return pulses


def _turns(periods: DoubleArray) -> npt.NDArray[np.int64]:
    """Return how many turns lie between two pulses: more than one where pulses are missing."""
    ratio = periods / _usual(periods)
    turns = np.maximum(np.rint(ratio), 1)
    # A missing pulse leaves whole turns behind; anything between is a shaft that slowed down.
    turns[np.abs(ratio / turns - 1) > 0.1] = 1
    return turns.astype(np.int64)


def _edges(spin: DoubleArray, samples: int, pulses: DoubleArray) -> tuple[float, float]:
    """Return from where to where a spin's speed holds.

    At the ends of the recording it holds to the very end, unless a pulse
    should have come by then.
    """
    first, last = spin[0], spin[-1]
    if first == pulses[0] and first < 1.5 * (spin[1] - spin[0]):
        first = 0.0
    if last == pulses[-1] and samples - last < 1.5 * (spin[-1] - spin[-2]):
        last = samples - 1.0
    return float(first), float(last)
