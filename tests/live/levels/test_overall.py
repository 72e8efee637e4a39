from __future__ import annotations

from math import cos, pi, sin, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgsa.live.levels.overall import measurable_band, rms_and_peak, velocity_rms

RATE = 12_800.0
BAND = (10.0, 1000.0)


def sine(amplitude: float, frequency: float, seconds: float = 1.4, rate: float = RATE) -> np.ndarray:
    return np.asarray(amplitude * np.sin(2 * pi * frequency * np.arange(round(seconds * rate)) / rate + 0.3))


def literal_velocity(samples: np.ndarray, rate: float, band: tuple[float, float], integrations: int = 1) -> float:
    """The definition, one frequency of one segment after the other."""
    count, length = len(samples), min(len(samples), round(10 / band[0] * rate))
    segments = 1 + -(-2 * (count - length) // length)
    total = 0.0
    for number in range(segments):
        start = round((count - length) * number / (segments - 1)) if segments > 1 else 0
        part = [float(value) for value in samples[start : start + length]]
        mean = sum(part) / length
        window = [0.5 - 0.5 * cos(2 * pi * n / length) for n in range(length)]
        tapered = [(value - mean) * weight for value, weight in zip(part, window, strict=True)]
        for k in range(1, length // 2):
            frequency = k * rate / length
            if band[0] <= frequency <= band[1]:
                real = sum(value * cos(2 * pi * k * n / length) for n, value in enumerate(tapered))
                imaginary = sum(value * sin(2 * pi * k * n / length) for n, value in enumerate(tapered))
                power = 2 * (real**2 + imaginary**2) / (length * sum(weight**2 for weight in window))
                total += power / (2 * pi * frequency) ** (2 * integrations)
    return sqrt(total / segments)


@pytest.mark.parametrize("frequency", [25.0, 50.0, 157.3, 400.0, 990.0])
def test_a_sine_has_the_velocity_of_physics(frequency: float) -> None:
    found = velocity_rms(5.0 + sine(3.0, frequency), RATE, BAND)
    # The power of a line also stands in its two neighbours, 1 Hz away.
    assert found == pytest.approx(3.0 / (2 * pi * frequency) / sqrt(2), rel=0.51 / frequency**2 + 1e-6)


def test_a_slow_machine_is_measured_from_two_hertz_on() -> None:
    slow = sine(0.5, 5.0, seconds=5.0)
    assert velocity_rms(slow, RATE, (2.0, 1000.0)) == pytest.approx(0.5 / (2 * pi * 5) / sqrt(2), rel=1e-3)
    assert velocity_rms(slow, RATE, BAND) == pytest.approx(0.0, abs=1e-5)


def test_a_signal_of_velocity_is_only_limited_to_the_band() -> None:
    mixed = sine(3.0, 100.0) + sine(7.0, 2000.0) + sine(5.0, 3.0)
    assert velocity_rms(mixed, RATE, BAND, integrations=0) == pytest.approx(3.0 / sqrt(2), rel=1e-4)


@pytest.mark.parametrize(("count", "band"), [(60, (10.0, 80.0)), (100, (10.0, 80.0)), (233, (10.0, 40.0))])
@pytest.mark.parametrize("integrations", [0, 1])
def test_equals_the_literal_definition(count: int, band: tuple[float, float], integrations: int) -> None:
    samples = np.random.default_rng(count).normal(2.0, 3.0, count).astype(np.float32)
    found = velocity_rms(samples, 200.0, band, integrations=integrations)
    assert found == pytest.approx(literal_velocity(samples, 200.0, band, integrations), rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(factor=st.floats(1e-3, 1e3), offset=st.floats(-10, 10), seed=st.integers(0, 100))
def test_levels_scale_with_the_signal_and_ignore_its_mean(factor: float, offset: float, seed: int) -> None:
    samples = np.random.default_rng(seed).normal(size=500)
    changed = factor * (samples + offset)
    assert velocity_rms(changed, 1000.0, (10.0, 300.0)) == pytest.approx(
        factor * (velocity_rms(samples, 1000.0, (10.0, 300.0)) or 0.0), rel=1e-6
    )
    assert rms_and_peak(changed) == pytest.approx([factor * level for level in rms_and_peak(samples)], rel=1e-6)


def test_too_few_samples_have_no_velocity() -> None:
    assert velocity_rms(np.ones(199), 1000.0, (10.0, 300.0)) is None
    assert velocity_rms(np.ones(200), 1000.0, (10.0, 300.0)) == pytest.approx(0.0, abs=1e-12)


def test_the_band_ends_where_the_sample_rate_does() -> None:
    assert measurable_band((10.0, 1000.0), 2560.0) == (10.0, 1000.0)
    assert measurable_band((10.0, 1000.0), 256.0) == (10.0, 100.0)
    assert measurable_band((10.0, 1000.0), 51.0) is None


def test_rms_and_peak_are_about_the_mean() -> None:
    rms, peak = rms_and_peak(sine(2.0, 100.0).astype(np.float32) + np.float32(9.0))
    assert rms == pytest.approx(sqrt(2), rel=1e-4)
    assert peak == pytest.approx(2.0, rel=1e-3)
