from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.data.keyphase import HIGH, LOW, pulse_positions, shaft_speed

RATE = 12_800.0
DoubleArray = npt.NDArray[np.float64]


def ramp(seconds: float, *points: tuple[float, float]) -> DoubleArray:
    """Return the speed in rpm through (second, rpm) points."""
    time = np.arange(round(seconds * RATE)) / RATE
    return np.interp(time, [second for second, _ in points], [rpm for _, rpm in points])


def key_phase(rpm: DoubleArray, *, duty: float = 0.11, noise: float = 0.0) -> DoubleArray:
    """Return the key phase of a shaft, averaged over each sampling interval like the filter of a recorder."""
    turns = np.concatenate([[0.0], np.cumsum(rpm) / 60 / RATE]) - 0.5
    # The time spent high up to a given angle, so that edges fall between samples where they should.
    spent = np.floor(turns) * duty + np.minimum(turns % 1, duty)
    share = np.diff(spent) / np.maximum(np.diff(turns), 1e-12)
    return -0.1 + 3.9 * share + np.random.default_rng(0).normal(0, noise, rpm.size)


def pulse_positions_literally(signal: DoubleArray) -> DoubleArray:
    """Literal twin: a comparator with hysteresis, sample by sample."""
    found = []
    armed = True
    for i in range(1, signal.size):
        if signal[i] <= LOW:
            armed = True
        if signal[i] >= HIGH > signal[i - 1] and armed:
            found.append(i - 1 + (HIGH - signal[i - 1]) / (signal[i] - signal[i - 1]))
            armed = False
    return np.array(found)


def rpm_literally(signal: DoubleArray) -> DoubleArray:
    """Literal twin of the speed, for a shaft that rotates throughout the recording."""
    pulses = pulse_positions_literally(signal)
    middles = [(a + b) / 2 for a, b in pairwise(pulses)]
    speeds = [60 * RATE / (b - a) for a, b in pairwise(pulses)]
    trace = []
    for i in range(signal.size):
        after = next((place for place, middle in enumerate(middles) if middle > i), len(middles))
        if after in {0, len(middles)}:
            trace.append(speeds[0] if after == 0 else speeds[-1])
        else:
            share = (i - middles[after - 1]) / (middles[after] - middles[after - 1])
            trace.append(speeds[after - 1] + share * (speeds[after] - speeds[after - 1]))
    return np.array(trace)


@given(st.lists(st.sampled_from([-0.3, 0.5, 0.9, 1.0, 1.1, 1.5, 1.9, 2.0, 2.1, 3.9]), min_size=2, max_size=60))
def test_pulses_equal_the_literal_twin(levels: list[float]) -> None:
    signal = np.array(levels)

    np.testing.assert_array_equal(pulse_positions(signal), pulse_positions_literally(signal))


@given(st.floats(900, 3000), st.floats(900, 3000), st.floats(0.05, 0.3), st.integers(0, 2**32 - 1), st.floats(0, 0.15))
def test_speed_equals_the_literal_twin(start: float, end: float, duty: float, seed: int, noise: float) -> None:
    signal = key_phase(ramp(0.5, (0, start), (0.5, end)), duty=duty)
    signal += np.random.default_rng(seed).normal(0, noise, signal.size)

    np.testing.assert_allclose(shaft_speed(signal, RATE).rpm, rpm_literally(signal), rtol=1e-6)


def test_varying_speed_is_found_within_a_thousandth() -> None:
    rpm = ramp(20, (0, 1000), (5, 1000), (10, 500), (15, 3000), (20, 2900))

    speed = shaft_speed(key_phase(rpm).astype(np.float32), RATE)

    # A turn has one mean speed, so at a kink of the set curve the trace can only cut the corner.
    away_from_kinks = np.ones(rpm.size, bool)
    for kink in (0, 5, 10, 15, 20):
        away_from_kinks[max(0, round((kink - 0.2) * RATE)) : round((kink + 0.2) * RATE)] = False
    error = np.abs(speed.rpm / rpm - 1)
    assert error[away_from_kinks].max() < 1e-3
    assert error.max() < 0.03
    assert (speed.missing, speed.extra) == (0, 0)


def test_noise_on_the_edges_makes_no_second_pulse() -> None:
    rpm = ramp(4, (0, 1000), (4, 1000))
    speed = shaft_speed(key_phase(rpm, noise=0.2), RATE)

    np.testing.assert_allclose(speed.rpm, 1000, rtol=0.005)
    assert speed.extra == 0


def test_speed_is_zero_before_after_and_between_rotations() -> None:
    rpm = ramp(20, (1, 0), (3, 1500), (6, 1500), (8, 0), (12, 0), (14, 1500), (17, 1500), (19, 0))

    speed = shaft_speed(key_phase(rpm), RATE)

    for second in (0.0, 0.9, 8.5, 10, 11.5, 19.5):
        assert speed.rpm[round(second * RATE)] == 0, second
    for second in (2.0, 4, 5, 7, 13, 15, 18):
        assert speed.rpm[round(second * RATE)] == pytest.approx(rpm[round(second * RATE)], rel=0.01), second
    assert (speed.missing, speed.extra) == (0, 0)


def test_no_pulse_at_all_is_standstill() -> None:
    speed = shaft_speed(np.random.default_rng(0).normal(0, 0.1, 5000), RATE)

    assert not speed.rpm.any()


def test_one_pulse_gives_no_speed() -> None:
    signal = np.zeros(5000)
    signal[2000:2080] = 3.8

    assert not shaft_speed(signal, RATE).rpm.any()


@pytest.mark.parametrize("lost", [[20], [20, 21], [5, 20, 40], [20, 22]])
def test_missing_pulses_are_bridged(lost: list[int]) -> None:
    rpm = ramp(4, (0, 1000), (4, 1200))
    signal = key_phase(rpm)
    starts = pulse_positions(signal).astype(int)
    for pulse in lost:
        signal[starts[pulse] - 2 : starts[pulse] + 150] = 0

    speed = shaft_speed(signal, RATE)

    assert speed.missing == len(lost)
    np.testing.assert_allclose(speed.rpm, rpm, rtol=0.01)


@pytest.mark.parametrize("share", [0.2, 0.35, 0.5, 0.65, 0.9])
def test_extra_pulses_are_ignored(share: float) -> None:
    rpm = ramp(4, (0, 1000), (4, 1200))
    signal = key_phase(rpm)
    pulses = pulse_positions(signal)
    for turn in (10, 11, 30):
        middle = round(pulses[turn] + share * (pulses[turn + 1] - pulses[turn]))
        signal[middle : middle + 4] = 3.8

    speed = shaft_speed(signal, RATE)

    assert (speed.missing, speed.extra) == (0, 3)
    np.testing.assert_allclose(speed.rpm, rpm, rtol=0.01)


def test_speed_is_zero_after_the_last_pulse() -> None:
    signal = key_phase(ramp(6, (0, 2000), (6, 2000)))
    signal[round(4 * RATE) :] = 0

    speed = shaft_speed(signal, RATE).rpm

    assert speed[round(3.9 * RATE)] == pytest.approx(2000, rel=1e-3)
    assert not speed[round(4.05 * RATE) :].any()
