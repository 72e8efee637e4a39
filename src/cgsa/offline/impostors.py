"""Imitations of what a sensor may deliver instead of the machine, made from genuine recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt
from scipy.signal import resample_poly

from cgsa.nn.known import UNLIKE

Signal = npt.NDArray[np.float64]
"""(channels, samples)"""

MAX_PAIRED_CHANNELS = 4
"""With more channels, only neighbours are swapped or rotated."""
RATES = {"half": (1, 2), "0.8 times": (4, 5), "1.25 times": (5, 4), "twice": (2, 1)}
"""Wrong sample rates, as samples kept or added: up and down."""
COLOURS = {"pink": -0.5, "brown": -1.0, "blue": 0.5}
"""Exponents of the amplitude of coloured noise over frequency."""
OCTAVES = 4
QUIET = 0.03
"""Amplitude outside the octave of a band noise."""


@dataclass(frozen=True)
class Impostor:
    """One way in which a signal is not that of the machine."""

    name: str
    question: str
    imitate: Callable[[Signal, np.random.Generator], Signal]
    """Turns a genuine signal into an imitation of half to twice its length."""
    by_sample: bool = False
    """Whether every sample is changed on its own, so that means change like samples."""


def impostors(channels: Sequence[str], units: Sequence[str]) -> Iterator[Impostor]:
    """Yield everything that is imitated for a sensor."""
    yield Impostor("white noise", "looks like white noise: is the sensor connected?", _white)
    for name, factor in (("ten times", 10.0), ("a tenth of", 0.1)):
        text = f"level about {name} that of training: wrong gain or unit?"
        yield Impostor(f"{name} the level", text, partial(_scaled, factor=factor), by_sample=True)
    for first, second in _pairs(len(channels)):
        names = f"{channels[first]} and {channels[second]}"
        yield Impostor(
            f"{names} swapped",
            f"channels {names} look swapped",
            partial(_swapped, first=first, second=second),
            by_sample=True,
        )
        if units[first] == units[second]:
            for degrees in (45, 90):
                yield Impostor(
                    f"{names} rotated by {degrees} degrees",
                    f"the sensor with channels {names} looks rotated by about {degrees} degrees",
                    partial(_rotated, first=first, second=second, degrees=degrees),
                    by_sample=True,
                )
    for name, (up, down) in RATES.items():
        text = f"sampled at about {name} the rate of training?"
        yield Impostor(f"{name} the sample rate", text, partial(_resampled, up=up, down=down))
    # Directions in which other machines may differ.
    for name, exponent in COLOURS.items():
        yield Impostor(f"{name} noise", UNLIKE, partial(_coloured, exponent=exponent))
    for octave in range(1, OCTAVES + 1):
        yield Impostor(f"noise in octave {octave}", UNLIKE, partial(_in_octave, octave=octave))
    yield Impostor("mirrored spectrum", UNLIKE, _mirrored)
    if len(channels) > 1:
        yield Impostor("the same noise in all channels", UNLIKE, _same)


def _pairs(channels: int) -> list[tuple[int, int]]:
    every = range(channels)
    return list(combinations(every, 2) if channels <= MAX_PAIRED_CHANNELS else pairwise(every))


def _white(signal: Signal, random: np.random.Generator) -> Signal:
    return _with_level_of(signal, random.standard_normal(signal.shape))


def _same(signal: Signal, random: np.random.Generator) -> Signal:
    return _with_level_of(signal, random.standard_normal((1, signal.shape[1])))


def _scaled(signal: Signal, _: np.random.Generator, *, factor: float) -> Signal:
    return factor * signal


def _swapped(signal: Signal, _: np.random.Generator, *, first: int, second: int) -> Signal:
    result = signal.copy()
    result[[first, second]] = signal[[second, first]]
    return result


def _rotated(signal: Signal, _: np.random.Generator, *, first: int, second: int, degrees: float) -> Signal:
    cosine, sine = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    result = signal.copy()
    result[first] = cosine * signal[first] - sine * signal[second]
    result[second] = sine * signal[first] + cosine * signal[second]
    return result


def _resampled(signal: Signal, _: np.random.Generator, *, up: int, down: int) -> Signal:
    mean = signal.mean(axis=1, keepdims=True)
    return np.asarray(resample_poly(signal - mean, up, down, axis=1) + mean)


def _mirrored(signal: Signal, _: np.random.Generator) -> Signal:
    """Return the signal with its highest frequencies lowest."""
    mean = signal.mean(axis=1, keepdims=True)
    return np.asarray((signal - mean) * (-1.0) ** np.arange(signal.shape[1]) + mean)


def _coloured(signal: Signal, random: np.random.Generator, *, exponent: float) -> Signal:
    frequency = np.fft.rfftfreq(signal.shape[1])
    frequency[0] = frequency[1]
    return _filtered_noise(signal, random, np.asarray(frequency**exponent, dtype=np.float64))


def _in_octave(signal: Signal, random: np.random.Generator, *, octave: int) -> Signal:
    frequency, top = np.fft.rfftfreq(signal.shape[1]), 2.0**-octave
    return _filtered_noise(signal, random, np.where((top / 2 < frequency) & (frequency <= top), 1.0, QUIET))


def _filtered_noise(signal: Signal, random: np.random.Generator, amplitude: Signal) -> Signal:
    noise = np.fft.rfft(random.standard_normal(signal.shape), axis=1)
    return _with_level_of(signal, np.fft.irfft(noise * amplitude, n=signal.shape[1], axis=1))


def _with_level_of(signal: Signal, noise: Signal) -> Signal:
    """Return noise with the mean and standard deviation of every channel of a signal."""
    mean, deviation = signal.mean(axis=1, keepdims=True), signal.std(axis=1, keepdims=True)
    relative = (noise - noise.mean(axis=1, keepdims=True)) / noise.std(axis=1, keepdims=True)
    return np.asarray(mean + deviation * relative)
