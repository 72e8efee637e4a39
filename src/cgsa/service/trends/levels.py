"""What is measured of a piece of signal for its trends: RMS, kurtosis, octave bands and a coarse spectrum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cgsa.data.recording import Recording
from cgsa.explain.spectra import FRAMES, DoubleArray, decibels, frame_powers

FRAME = 1024
"""Samples of a frame; of a shorter piece, a smaller power of two."""
MEASURED_SECONDS = 1.0
LINES = 128
"""Lines of the coarse spectrum, equally spaced up to half the sample rate."""
FIRST_OCTAVE = 4
"""Line at which the first octave begins; a band below it has the rest."""
NOISE_BANDWIDTH = 1.5
"""Lines over which a Hann window spreads the power of one."""


@dataclass(frozen=True, eq=False)
class PieceLevels:
    """Levels of one piece of signal, or means of several."""

    channels: tuple[str, ...]
    sample_rate: float
    values: DoubleArray
    """(channels, quantities): RMS, kurtosis, and the RMS of every band."""
    decibels: DoubleArray
    """(channels, lines): mean power of the lines."""


def measure_piece(recording: Recording) -> PieceLevels | None:
    """Return the levels of the end of a piece of signal; None if it is too short or flat."""
    newest = max(1, round(MEASURED_SECONDS * recording.sample_rate))
    signal = recording.signal[:, -newest:].astype(np.float64)
    signal -= signal.mean(axis=1, keepdims=True)
    square = np.square(signal).mean(axis=1)
    longest = min(FRAME, signal.shape[1] // FRAMES)
    if longest < 4 * FIRST_OCTAVE or not (square > 0).all():
        return None
    frame = 1 << (longest.bit_length() - 1)
    kurtosis = (signal**4).mean(axis=1) / square**2
    power = frame_powers(signal, frame, frame // 2).mean(axis=0)
    edges = octave_edges(power.shape[1])
    bands = np.stack([power[:, low:high].sum(axis=1) for low, high in edges], axis=1) / (2 * NOISE_BANDWIDTH)
    values = np.concatenate([np.sqrt(square)[:, None], kurtosis[:, None], np.sqrt(bands)], axis=1)
    return PieceLevels(recording.channels, recording.sample_rate, values, decibels(_coarse(power)))


def mean_levels(pieces: Sequence[PieceLevels], weights: Sequence[float] | None = None) -> PieceLevels:
    """Return the means of pieces: of powers, except for the kurtosis."""
    squares = np.average([_powers(one.values) for one in pieces], axis=0, weights=weights)
    values = np.sqrt(squares)
    values[:, 1] = squares[:, 1]
    power = np.average([10 ** (one.decibels / 10) for one in pieces], axis=0, weights=weights)
    return PieceLevels(pieces[-1].channels, pieces[-1].sample_rate, values, decibels(power))


def octave_edges(lines: int) -> list[tuple[int, int]]:
    """Return the first line and the one after the last of every band; the mean is in none.

    >>> octave_edges(17)
    [(1, 4), (4, 8), (8, 17)]
    """
    edges = [1, FIRST_OCTAVE]
    while 2 * edges[-1] < lines - 1:
        edges.append(2 * edges[-1])
    return [*pairwise(edges), (edges[-1], lines)]


def band_names(sample_rate: float, bands: int) -> list[str]:
    """Return the frequencies of the bands.

    >>> band_names(12_800.0, 8)[:3]
    ['0 to 50 Hz', '50 to 100 Hz', '100 to 200 Hz']
    """
    tops = [sample_rate / 2 ** (bands - number) for number in range(bands)]
    return [f"{low:.4g} to {high:.4g} Hz" for low, high in zip([0.0, *tops[:-1]], tops, strict=True)]


def _powers(values: DoubleArray) -> DoubleArray:
    squares = np.square(values)
    squares[:, 1] = values[:, 1]
    return np.asarray(squares)


def _coarse(power: DoubleArray) -> DoubleArray:
    """Return the mean power of equal parts of the spectrum; of a short one, interpolated."""
    count = power.shape[1] - 1
    if count < LINES:
        places = np.linspace(1, count, LINES)
        return np.stack([np.interp(places, np.arange(1, count + 1), row[1:]) for row in power])
    edges = 1 + np.arange(LINES) * count // LINES
    return np.asarray(np.add.reduceat(power[:, 1:], edges - 1, axis=1) / np.diff([*edges, count + 1]))
