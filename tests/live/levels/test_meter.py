from __future__ import annotations

from dataclasses import replace
from math import ceil, nan, sqrt

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cgsa.data.windows import WindowSpec
from cgsa.live.intake.quality import GOOD, WINDOW_REASONS, QualityFlags
from cgsa.live.levels.meter import MEASURED, LevelMeter, channels_by_run, longest_run
from cgsa.live.levels.overall import MIN_PERIODS, SEGMENT_PERIODS, velocity_conversion
from tests.machines import manifest

RATE, SPEC, BAND = 1000.0, WindowSpec(length=200, step=100), (10.0, 300.0)
MACHINE = replace(
    manifest(),
    channels=("x", "y", "z", "speed", "torque"),
    units=("m/s2", "m/s2", "g", "mm/s", "Nm"),
    sample_rate=RATE,
    window=SPEC,
)
WINDOWS = 12
SAMPLES = (WINDOWS - 1) * SPEC.step + SPEC.length


def literal_levels(samples: np.ndarray, flags: QualityFlags) -> np.ndarray:
    """One channel after the other."""
    levels = np.full((len(samples), 3), nan)
    for channel, codes in enumerate(flags.codes):
        first, count = longest_run(np.isin(codes, MEASURED))
        part = samples[channel, first * SPEC.step : (first + count - 1) * SPEC.step + SPEC.length].astype(np.float64)
        if not count or not np.isfinite(part).all():
            continue
        deviation = part - part.mean()
        levels[channel, :2] = sqrt(float(np.square(deviation).mean())), float(np.abs(deviation).max())
        conversion = velocity_conversion(MACHINE.units[channel])
        if conversion is not None:
            levels[channel, 2] = literal_velocity(part, *conversion)
    return levels


def literal_velocity(part: np.ndarray, factor: float, integrations: int) -> float:
    length = min(len(part), round(SEGMENT_PERIODS / BAND[0] * RATE))
    if length * BAND[0] < MIN_PERIODS * RATE:
        return nan
    window = np.hanning(length + 1)[:-1]
    frequencies = np.arange(length // 2 + 1) * (RATE / length)
    inside = (frequencies >= BAND[0]) & (frequencies <= BAND[1])
    scale = 2 / (length * float(np.square(window).sum()))
    weights = scale * np.power(2 * np.pi * frequencies[inside], -2.0 * integrations)
    starts = np.linspace(0, len(part) - length, 1 + ceil(2 * (len(part) - length) / length)).round().astype(int)
    segments = np.stack([part[start : start + length] for start in starts])
    spectra = np.fft.rfft((segments - segments.mean(axis=1, keepdims=True)) * window)[:, inside]
    power = (np.square(spectra.real) + np.square(spectra.imag)).mean(axis=0)
    return factor * sqrt(float(power @ weights))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), flagged=st.floats(0, 0.5), broken=st.integers(0, 2))
def test_channels_together_have_the_levels_of_each_alone(seed: int, flagged: float, broken: int) -> None:
    rng = np.random.default_rng(seed)
    samples = rng.normal(rng.normal(size=(5, 1)), 3.0, (5, SAMPLES)).astype(np.float32)
    for _ in range(broken):
        samples[rng.integers(5), rng.integers(SAMPLES)] = rng.choice([np.nan, np.inf])
    codes = np.where(rng.random((5, WINDOWS)) < flagged, rng.integers(1, len(WINDOW_REASONS), (5, WINDOWS)), 0)
    flags = QualityFlags(codes.astype(np.int8))
    meter = LevelMeter(MACHINE, BAND, batch_samples=SAMPLES)
    np.testing.assert_array_equal(meter.measure(samples, flags), literal_levels(samples, flags))


def test_channels_are_measured_over_the_longest_run_of_each() -> None:
    usable = np.ones((3, 4), np.bool_)
    assert WINDOW_REASONS[0] == GOOD
    assert channels_by_run(usable) == {(0, 4): [0, 1, 2]}
    usable[1, 0] = usable[2] = False
    assert channels_by_run(usable) == {(0, 4): [0], (1, 3): [1], (0, 0): [2]}
