"""Which windows and which features suit a sensor: chosen from its sample rate and the length of the recordings.

Lengths are in seconds, because a machine turns in seconds. Frames of 12 to 100 ms
separate states best on motors, gearboxes and bearings, from sensors of 2 to 20 kHz;
a slow sensor needs frames of at least a few samples instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

from torch import Tensor

from cgsa.data.levels import is_speed
from cgsa.data.scenario import Condition
from cgsa.data.windows import WindowSpec
from cgsa.errors import ConfigError, DataError
from cgsa.nn.ensemble import EnsembleConfig
from cgsa.nn.orders import SpeedConfig
from cgsa.nn.spectra import ENVELOPE_FRAME, ENVELOPE_HOP, ENVELOPES, FeatureConfig

LONGEST_FRAME_SECONDS = 0.1
LEAST_LONGEST_FRAME = 64
"""Samples of the longest frame of a slow sensor."""
SPECTRUM_FRAMES = 4
"""Each frame is half as long as the one before."""
CROSS_FRAMES = (8, 16)
"""The longest frame divided by these."""
LEAST_FRAME = 8
ENVELOPE_SECONDS = 0.5
"""Frames of the envelope must resolve how often impacts come, a few times per turn."""
ENVELOPE_SAMPLE_RATE = 1000.0
"""Below this rate there is no band above the turning of the shaft whose envelope could be measured."""
MAX_FEATURES = 4096
"""Most features of one kind; with many channels, cross-spectra get shorter frames."""
LEAST_WINDOW = 256
"""Least samples of a window."""
WINDOWS_PER_RECORDING = 3
"""A recording holds at least this many windows that do not overlap."""


@dataclass(frozen=True)
class PortfolioConfig:
    """Settings of an ensemble."""

    seconds: float = 1.0
    """Length of a window; shorter if recordings are short, longer if a sensor is slow."""

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= 60:
            raise ConfigError(f"ensemble.seconds {self.seconds:g}; expected above 0 and at most 60")


def longest_frame(sample_rate: float) -> int:
    """Return the samples of the longest frame, a power of two."""
    return max(LEAST_LONGEST_FRAME, nearest_power_of_two(LONGEST_FRAME_SECONDS * sample_rate))


def choose_window(config: PortfolioConfig, sample_rate: float, shortest: int) -> WindowSpec:
    """Return the windows for recordings of which the shortest has ``shortest`` samples.

    They are multiples of half the longest frame, so that neighbouring windows share their frames.
    """
    frame = longest_frame(sample_rate)
    step = frame // 2
    wanted = min(max(config.seconds * sample_rate, LEAST_WINDOW), shortest / WINDOWS_PER_RECORDING)
    length = max(frame, int(wanted) // step * step)
    if length > shortest:
        raise DataError(
            f"the shortest recording has {shortest} samples, {shortest / sample_rate:.3g} s; an ensemble needs windows "
            f"of at least {length} samples, {length / sample_rate:.3g} s"
        )
    return WindowSpec(length, step)


def choose_features(
    sample_rate: float, channels: int, spec: WindowSpec, speed: SpeedConfig | None = None
) -> EnsembleConfig:
    """Return the members for a sensor; ``speed`` is that of the training if one of its conditions is a speed."""
    longest = longest_frame(sample_rate)
    frames = dict.fromkeys(max(LEAST_FRAME, longest >> number) for number in range(SPECTRUM_FRAMES))
    found = [FeatureConfig("spectrum", frame) for frame in frames if frame <= spec.length]
    found += [FeatureConfig(kind, longest) for kind in ("statistics", "cepstrum") if longest <= spec.length]
    if channels > 1:
        most = nearest_power_of_two(2 * MAX_FEATURES / channels**2, at_most=True)
        frames = dict.fromkeys(max(LEAST_FRAME, min(longest // part, most)) for part in CROSS_FRAMES)
        found += [FeatureConfig("cross_spectrum", frame) for frame in frames if frame <= spec.length]
    values = (spec.length - ENVELOPE_FRAME) // ENVELOPE_HOP + 1
    wanted = nearest_power_of_two(ENVELOPE_SECONDS * sample_rate / ENVELOPE_HOP)
    frame = min(wanted, nearest_power_of_two(values, at_most=True))
    if sample_rate >= ENVELOPE_SAMPLE_RATE and frame >= 4 * LEAST_FRAME:
        found += [FeatureConfig(kind, frame, stretched=True) for kind in ENVELOPES]
    in_orders = speed if any(one.stretched for one in found) else None
    return EnsembleConfig(tuple(found), speed=in_orders)


def training_speed(conditions: Sequence[Condition], values: Tensor | None) -> SpeedConfig | None:
    """Return the first condition that is a speed, with the geometric mean of its values (windows, conditions).

    None if no condition is a speed, or if the machine never turned.
    """
    for place, condition in enumerate(conditions):
        if is_speed(condition) and values is not None:
            speeds = values[:, place].double()
            turning = speeds[speeds > 0]
            return SpeedConfig(place, float(turning.log().mean().exp())) if len(turning) else None
    return None


def nearest_power_of_two(value: float, *, at_most: bool = False) -> int:
    """Return the power of two nearest to a positive number, or the largest that is not above it.

    >>> nearest_power_of_two(1200), nearest_power_of_two(1900, at_most=True)
    (1024, 1024)
    """
    if value < 1:
        return 1
    return int(1 << int(log2(value) if at_most else round(log2(value))))
