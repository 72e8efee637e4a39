"""Averaged spectra of an interval, its waterfall, and resampling to a constant speed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from scipy.signal import resample

from cgsa.errors import DataError

DoubleArray = npt.NDArray[np.float64]

FRAMES = 3
"""Frames that fit into an interval side by side, at least; half as far apart, they are nearly twice as many."""
LONGEST_FRAME, LONGEST_ENVELOPE_FRAME = 4.0, 2.0
"""In seconds: long frames separate close lines, but a line that wanders fades in them."""
SHORTEST_INTERVAL = 64
"""Samples without which there is no spectrum."""
VALUES_AT_ONCE = 1 << 20
"""Samples of all frames that are transformed together."""
UNSTEADY = 0.002
"""Relative deviation of the speed from which a signal is resampled."""


@dataclass(frozen=True, eq=False)
class AveragedSpectrum:
    """Power of the lines of every channel, averaged over frames."""

    power: DoubleArray
    """(channels, lines); the square of the amplitude of a sine."""
    step: float
    """Hz from one line to the next; the first is at 0."""

    @property
    def frequencies(self) -> DoubleArray:
        """The lines in Hz."""
        return self.step * np.arange(self.power.shape[1], dtype=np.float64)

    @property
    def decibels(self) -> DoubleArray:
        """The power on a logarithmic scale."""
        return decibels(self.power)


def decibels(power: DoubleArray) -> DoubleArray:
    """Return powers in dB; a power of 0 counts as the least positive one."""
    return np.asarray(10 * np.log10(np.maximum(power, np.finfo(np.float64).tiny)))


def frame_samples(samples: int, rate: float, longest: float) -> int:
    """Return the samples of a frame for an interval."""
    if samples < SHORTEST_INTERVAL:
        raise DataError(f"an interval of {samples} samples; expected at least {SHORTEST_INTERVAL}")
    return max(SHORTEST_INTERVAL // FRAMES, min(samples // FRAMES, round(longest * rate)))


def averaged_spectrum(signal: DoubleArray, rate: float, frame: int) -> AveragedSpectrum:
    """Return the mean power spectrum over frames of ``frame`` samples, half of which overlap (Welch's method)."""
    power = frame_powers(signal, frame, frame // 2)
    return AveragedSpectrum(power.mean(axis=0), rate / frame)


def frame_powers(signal: DoubleArray, frame: int, hop: int) -> DoubleArray:
    """Return the power spectra of all frames, (frames, channels, lines)."""
    if not 0 < frame <= signal.shape[1]:
        raise DataError(f"frames of {frame} samples do not fit into {signal.shape[1]} samples")
    taper = np.hanning(frame + 2)[1:-1]
    frames = sliding_window_view(signal, frame, axis=1)[:, ::hop]
    # A few frames at a time: all of them together would not fit into memory for a long interval.
    together = max(1, VALUES_AT_ONCE // (len(signal) * frame))
    found = []
    for begin in range(0, frames.shape[1], together):
        part = frames[:, begin : begin + together]
        lines = np.fft.rfft((part - part.mean(axis=2, keepdims=True)) * taper, axis=2)
        found.append((2 * np.abs(lines) / taper.sum()) ** 2)
    return np.concatenate(found, axis=1).swapaxes(0, 1)


@dataclass(frozen=True, eq=False)
class Waterfall:
    """Power spectra of one channel over time."""

    power: DoubleArray
    """(times, lines)"""
    times: DoubleArray
    """Middle of every frame in seconds from the start of the signal."""
    step: float
    """Hz from one line to the next."""


def waterfall(samples: DoubleArray, rate: float, *, times: int = 120, lines: int = 400) -> Waterfall:
    """Return the spectra of one channel (samples,) over time, at most about ``times`` of ``lines`` lines each."""
    frame = max(16, min(len(samples), 2 * lines))
    hop = max(frame // 2, (len(samples) - frame) // max(1, times - 1))
    power = frame_powers(samples[None], frame, max(1, hop))[:, 0]
    middles = np.asarray((np.arange(len(power)) * hop + frame / 2) / rate, np.float64)
    return Waterfall(power, middles, rate / frame)


def is_steady(rpm: npt.NDArray[np.floating]) -> bool:
    """Return whether a speed is constant enough for spectra without resampling."""
    return bool(np.std(rpm, dtype=np.float64) <= UNSTEADY * np.mean(rpm, dtype=np.float64))


def at_speed(signal: DoubleArray, rpm: npt.NDArray[np.floating], to: float) -> DoubleArray:
    """Return a signal as if the machine had turned at the speed ``to`` (rpm) throughout (order tracking).

    ``rpm`` has the speed at every sample. Lines that follow the shaft become sharp and come to the same place in all
    signals; resonances and lines of the supply move by the ratio of the speeds.
    """
    speed = np.asarray(rpm, np.float64)
    if not speed.min() > 0.05 * speed.max():
        raise DataError("the machine stands still within the interval; choose one in which it turns")
    if is_steady(rpm):
        # A constant ratio: the spectrum stays exact, which interpolation would attenuate at high frequencies.
        count = round(signal.shape[1] * float(speed.mean()) / to)
        return signal if count == signal.shape[1] else np.asarray(resample(signal, count, axis=1))
    angle = np.concatenate([[0.0], np.cumsum((speed[1:] + speed[:-1]) / 2)])
    samples = np.arange(len(angle), dtype=np.float64)
    place = np.interp(np.arange(0, angle[-1], to), angle, samples)
    return np.stack([np.interp(place, samples, row) for row in signal])
