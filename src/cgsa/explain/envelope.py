"""The envelope spectrum: how often impacts come, whatever resonance they excite."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
from scipy.fft import prev_fast_len
from scipy.signal import hilbert

from cgsa.explain.spectra import AveragedSpectrum, DoubleArray, averaged_spectrum, frame_powers

EnvelopeMethod: TypeAlias = Literal["pooled", "prewhitened", "kurtosis", "broad"]
"""Which part of the signal the envelope is taken of:

- ``pooled``: several envelopes, whose evidence is averaged line by line: of the prewhitened signal, of each quarter of
  its band, and of the signal as it is. Which resonance the impacts excite need not be known, and noise averages out;
- ``prewhitened``: all of it, after every line of its spectrum has been set to the same amplitude, so that neither the
  lines of shafts and gears nor a single resonance dominate (cepstral prewhitening: P. Borghesani et al., "Application
  of cepstrum pre-whitening for the diagnosis of bearing faults under variable speed conditions", MSSP 36, 2013);
- ``kurtosis``: the band whose level varies most impulsively (J. Antoni, "Fast computation of the kurtogram", MSSP 21,
  2007, here without its fractional levels);
- ``broad``: all of it, as it is.
"""
ENVELOPE_RATE = 2048.0
"""Values of the envelope per second, at least, if the signal has more."""
LEVELS = (2, 3, 4, 5)
"""Bands of the kurtogram: 2 to the power of each."""
POOLED_BANDS = 4


def envelope_spectra(
    signal: DoubleArray, rate: float, seconds: float, method: EnvelopeMethod = "pooled"
) -> list[AveragedSpectrum]:
    """Return the averaged spectra of the squared envelopes, relative to their means, in frames of so many seconds.

    There is one, or several with the same lines if the method is ``pooled``, that of the prewhitened signal first.
    """
    found = []
    # A few samples less than there are, so that no Fourier transform has a large prime factor.
    for part in _parts(signal[:, : prev_fast_len(signal.shape[1], real=True)], rate, method):
        envelope, slower = squared_envelope(part, rate)
        found.append(averaged_spectrum(envelope, slower, max(16, min(envelope.shape[1], round(seconds * slower)))))
    return found


def _parts(signal: DoubleArray, rate: float, method: EnvelopeMethod) -> list[DoubleArray]:
    """Return the signals of which the envelopes are taken."""
    if method == "broad":
        return [signal]
    if method == "kurtosis":
        return [np.stack([band_passed(row, rate, *impulsive_band(row, rate)) for row in signal])]
    white = prewhitened(signal)
    if method == "prewhitened":
        return [white]
    edges = np.linspace(0, rate / 2, POOLED_BANDS + 1).tolist()
    return [white, signal, *(band_passed(white, rate, low, high) for low, high in pairwise(edges))]


def squared_envelope(signal: DoubleArray, rate: float) -> tuple[DoubleArray, float]:
    """Return the squared envelope relative to its mean, at a rate that suffices for it, and that rate."""
    envelope = np.abs(hilbert(signal - signal.mean(axis=1, keepdims=True), axis=1)) ** 2
    block = max(1, int(rate // ENVELOPE_RATE))
    whole = envelope.shape[1] // block * block
    envelope = envelope[:, :whole].reshape(len(envelope), -1, block).mean(axis=2)
    level = envelope.mean(axis=1, keepdims=True)
    return envelope / np.where(level > 0, level, 1.0), rate / block


def prewhitened(signal: DoubleArray) -> DoubleArray:
    """Return a signal with the phases of its spectrum, and the same amplitude on every line."""
    lines = np.fft.rfft(signal, axis=1)
    size = np.abs(lines)
    flat = np.divide(lines, size, out=np.zeros_like(lines), where=size > 0)
    return np.asarray(np.fft.irfft(flat, signal.shape[1], axis=1))


def impulsive_band(samples: DoubleArray, rate: float) -> tuple[float, float]:
    """Return the band in Hz with the highest spectral kurtosis; the lowest band of each level never counts."""
    best, chosen = -np.inf, (0.0, rate / 2)
    for level in LEVELS:
        frame = 2 ** (level + 1)
        if len(samples) < 16 * frame:
            break
        power = frame_powers(samples[None], frame, frame // 2)[:, 0, 1:-1]
        mean = power.mean(axis=0)
        kurtosis = (power**2).mean(axis=0) / np.where(mean > 0, mean, 1.0) ** 2 - 2
        line = int(kurtosis.argmax())
        if kurtosis[line] > best and mean[line] > 0:
            best, step = float(kurtosis[line]), rate / frame
            chosen = ((line + 0.5) * step, (line + 1.5) * step)
    return chosen


def band_passed(signal: DoubleArray, rate: float, low: float, high: float) -> DoubleArray:
    """Return the part of a signal, (samples,) or (channels, samples), between two frequencies."""
    count = signal.shape[-1]
    lines = np.fft.rfft(signal)
    frequency = np.fft.rfftfreq(count, 1 / rate)
    lines[..., (frequency < low) | (frequency > high)] = 0
    return np.asarray(np.fft.irfft(lines, count))
