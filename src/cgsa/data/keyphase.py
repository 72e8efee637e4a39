"""Shaft speed from a key-phase signal, which has one pulse per revolution.

One pass over all samples finds the pulses; everything else works on the few
thousand pulses of a run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.ndimage import median_filter, minimum_filter1d

from cgsa.data.recording import FloatArray

DoubleArray = npt.NDArray[np.float64]

HIGH = 2.0
"""A pulse starts where the signal rises through this level."""
LOW = 1.0
"""The next pulse counts only after the signal fell to this level, so that noise on an edge makes no second pulse."""
NEIGHBOURS = 15
"""Number of periods around a period whose median gives its usual length."""
STOP_PERIODS = 8.0
STOP_SECONDS = 0.25
"""Without a pulse for more than this many periods and seconds the speed is 0."""


@dataclass(frozen=True, eq=False)
class ShaftSpeed:
    """Speed over time, and the corrections that were needed."""

    rpm: FloatArray
    """Revolutions per minute at every sample; 0 where there are no pulses."""
    missing: int
    """Number of missing pulses that were bridged."""
    extra: int
    """Number of pulses between two good ones that were ignored."""


def shaft_speed(key_phase: npt.NDArray[np.floating], sample_rate: float) -> ShaftSpeed:
    """Return the speed of a shaft from its key phase.

    The average speed of each revolution is assigned to its middle and
    interpolated between the middles of successive revolutions.
    """
    pulses = pulse_positions(key_phase)
    knots_at: list[DoubleArray] = []
    knots_rpm: list[DoubleArray] = []
    missing = extra = 0
    for rotation in _split_at_stops(pulses, sample_rate):
        kept = _without_extra_pulses(rotation)
        if kept.size < 2:
            continue
        periods = np.diff(kept)
        revolutions = _revolutions(periods)
        rpm = 60 * sample_rate * revolutions / periods
        first, last = _edges(kept, key_phase.size, pulses)
        # Outside the rotation the speed is 0: two adjacent knots make the step.
        knots_at += [np.r_[first - 1, first], kept[:-1] + periods / 2, np.r_[last, last + 1]]
        knots_rpm += [np.r_[0, rpm[0]], rpm, np.r_[rpm[-1], 0]]
        missing += int(revolutions.sum()) - revolutions.size
        extra += rotation.size - kept.size
    trace = np.zeros(key_phase.size, np.float32)
    if knots_at:
        trace[:] = np.interp(np.arange(key_phase.size), np.concatenate(knots_at), np.concatenate(knots_rpm))
    return ShaftSpeed(trace, missing, extra)


def pulse_positions(key_phase: npt.NDArray[np.floating]) -> DoubleArray:
    """Return the starts of pulses, in samples and fractions of a sample."""
    above = key_phase >= HIGH
    rises = np.flatnonzero(above[1:] & ~above[:-1])
    below = key_phase <= LOW
    falls = np.flatnonzero(below[1:] & ~below[:-1])
    # A rise starts a new pulse if the signal fell to LOW since the previous rise.
    falls_before = np.searchsorted(falls, rises)
    rises = rises[np.diff(falls_before, prepend=-1) > 0]
    before, after = key_phase[rises].astype(np.float64), key_phase[rises + 1].astype(np.float64)
    return rises + (HIGH - before) / (after - before)


def _split_at_stops(pulses: DoubleArray, sample_rate: float) -> list[DoubleArray]:
    """Split the pulses at standstills, so that the shaft rotates throughout each part."""
    periods = np.diff(pulses)
    stops = periods > np.maximum(STOP_PERIODS * _usual(periods), STOP_SECONDS * sample_rate)
    return np.split(pulses, np.flatnonzero(stops) + 1)


def _usual(periods: DoubleArray) -> DoubleArray:
    """Return the usual length of each period from its neighbours; the median follows a steady run-up or run-down."""
    return periods if periods.size == 0 else median_filter(periods, NEIGHBOURS, mode="nearest")


def _without_extra_pulses(pulses: DoubleArray) -> DoubleArray:
    """Remove the pulses without which the revolution around them has its usual length."""
    while pulses.size > 2:
        periods = np.diff(pulses)
        usual = _usual(periods)
        deviation = np.minimum(np.abs(periods / usual - 1), 1)
        merged = np.abs((periods[1:] + periods[:-1]) / np.maximum(usual[1:], usual[:-1]) - 1)
        # Good pulses next to an extra one look suspicious too, but the periods around them deviate as well.
        misfit = merged + np.r_[0, deviation[:-2]] + np.r_[deviation[2:], 0]
        misfit[merged > 0.4] = np.inf
        # Remove one pulse per neighbourhood at a time; the next pass examines the remaining ones.
        best = minimum_filter1d(misfit, 2 * 4 + 1, mode="constant", cval=np.inf)
        extra = np.isfinite(misfit) & (misfit == best)
        if not extra.any():
            break
        pulses = pulses[~np.r_[False, extra, False]]
    return pulses


def _revolutions(periods: DoubleArray) -> npt.NDArray[np.int64]:
    """Return the number of revolutions between two pulses: more than one if pulses are missing."""
    ratio = periods / _usual(periods)
    revolutions = np.maximum(np.rint(ratio), 1)
    # A missing pulse leaves an integer ratio; anything else is a shaft that slowed down.
    revolutions[np.abs(ratio / revolutions - 1) > 0.1] = 1
    return revolutions.astype(np.int64)


def _edges(rotation: DoubleArray, samples: int, pulses: DoubleArray) -> tuple[float, float]:
    """Return the first and last sample of a rotation.

    It extends to the ends of the recording unless a pulse is missing there.
    """
    first, last = rotation[0], rotation[-1]
    if first == pulses[0] and first < 1.5 * (rotation[1] - rotation[0]):
        first = 0.0
    if last == pulses[-1] and samples - last < 1.5 * (rotation[-1] - rotation[-2]):
        last = samples - 1.0
    return float(first), float(last)
