"""Recordings at another sample rate."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from cgsa.data.recording import FloatArray, Recording
from cgsa.errors import DataError

MAX_FACTOR = 10_000
"""The filter grows with the larger of both factors of the ratio of rates."""


def resample(recording: Recording, rate: float) -> Recording:
    """Return a recording at another sample rate, and say so in its notes.

    A polyphase filter removes what the new rate cannot hold. Conditions are interpolated instead: a filter would let a
    speed overshoot at a step.

    Raises
    ------
    DataError
        If the ratio of the rates is not one of whole numbers up to 10,000.
    """
    if rate == recording.sample_rate:
        return recording
    if not rate > 0:
        raise DataError(f"{recording.source}: cannot resample to {rate:g} Hz; expected a positive rate")
    ratio = Fraction(rate / recording.sample_rate).limit_denominator(MAX_FACTOR)
    up, down = ratio.numerator, ratio.denominator
    if up > MAX_FACTOR or up == 0 or abs(up / down * recording.sample_rate / rate - 1) > 1e-9:
        raise DataError(
            f"{recording.source}: cannot resample {recording.sample_rate:g} Hz to {rate:g} Hz: the ratio of the rates "
            f"is not one of whole numbers up to {MAX_FACTOR}"
        )
    signal = _polyphase(recording.signal, up, down)
    # Sample k of the result is at the time of sample k * down / up of the original.
    places = np.arange(signal.shape[1]) * (down / up)
    known = np.arange(recording.samples)
    conditions = {
        name: np.interp(places, known, trace).astype(np.float32) for name, trace in recording.conditions.items()
    }
    note = f"resampled from {recording.sample_rate:g} Hz to {rate:g} Hz (polyphase filter, {up}:{down})"
    return replace(
        recording,
        signal=signal,
        sample_rate=rate,
        conditions=conditions,
        offset=recording.offset * up // down,
        notes=(*recording.notes, note),
    )


def _polyphase(signal: FloatArray, up: int, down: int) -> FloatArray:
    """Filter each channel; its mean is taken off before, so that the ends do not ring."""
    from scipy.signal import resample_poly  # noqa: PLC0415 -- slow to import, and needed by few

    rows = []
    for row in signal.astype(np.float64):
        mean = row.mean() if row.size else 0.0
        rows.append(np.asarray(resample_poly(row - mean, up, down) + mean, np.float32))
    return np.stack(rows)
