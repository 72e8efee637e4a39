from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.errors import DataError
from cgsa.explain import spectra
from cgsa.explain.spectra import at_speed, averaged_spectrum, frame_powers, frame_samples, is_steady, waterfall
from tests.explain.signals import RATE, line, noise


@given(st.integers(40, 900), st.floats(0.1, 10.0))
def test_a_sine_has_the_square_of_its_amplitude(frequency: int, amplitude: float) -> None:
    signal = line(float(frequency), amplitude, 1.0)[None]
    found = averaged_spectrum(signal, RATE, round(RATE))
    assert found.power[0].argmax() == frequency
    assert found.power[0, frequency] == pytest.approx(amplitude**2, rel=1e-3)


def test_the_average_is_that_of_a_loop_over_frames() -> None:
    signal, frame = noise(0, 0.5, channels=2), 512
    taper = np.hanning(frame + 2)[1:-1]
    slow = []
    for begin in range(0, signal.shape[1] - frame + 1, frame // 2):
        part = signal[:, begin : begin + frame]
        slow += [np.abs(np.fft.rfft((row - row.mean()) * taper) * 2 / taper.sum()) ** 2 for row in part]
    expected = np.array(slow).reshape(-1, 2, frame // 2 + 1).mean(axis=0)
    np.testing.assert_allclose(averaged_spectrum(signal, RATE, frame).power, expected)


def test_frames_that_are_transformed_together_are_those_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    signal = noise(0, 0.5, channels=2)
    together = frame_powers(signal, 64, 24)
    monkeypatch.setattr(spectra, "VALUES_AT_ONCE", 1000)
    np.testing.assert_allclose(frame_powers(signal, 64, 24), together, rtol=1e-12)
    assert together.shape == ((signal.shape[1] - 64) // 24 + 1, 2, 33)


def test_a_run_up_becomes_one_line_at_constant_speed() -> None:
    time = np.arange(round(4 * RATE)) / RATE
    rpm = 1200 + 150 * time
    signal = np.sin(2 * np.pi * 5 * np.cumsum(rpm / 60) / RATE)[None]
    assert not is_steady(rpm)
    frame = round(RATE)
    before, after = (
        averaged_spectrum(one, RATE, frame).power[0].max() for one in (signal, at_speed(signal, rpm, float(rpm.mean())))
    )
    assert after > 0.9 > 3 * before


def test_another_steady_speed_moves_lines_with_the_shaft() -> None:
    signal = line(505.0, 1.0)[None]
    moved = at_speed(signal, np.full(signal.shape[1], 1010.0), 1000.0)
    found = averaged_spectrum(moved, RATE, round(2 * RATE))
    assert found.frequencies[found.power[0].argmax()] == pytest.approx(500.0)
    assert found.power[0].max() == pytest.approx(1.0, rel=0.01)


def test_a_standstill_is_refused() -> None:
    with pytest.raises(DataError, match="stands still"):
        at_speed(noise(0), np.linspace(0, 1500, noise(0).shape[1]), 1500.0)


def test_frames_suit_the_interval() -> None:
    assert frame_samples(30_000, 1000.0, 4.0) == 4000
    assert frame_samples(3000, 1000.0, 4.0) == 1000
    with pytest.raises(DataError, match="an interval of 10 samples"):
        frame_samples(10, 1000.0, 4.0)
    with pytest.raises(DataError, match="do not fit"):
        frame_powers(noise(0), 10**6, 1)


def test_a_waterfall_shows_when_a_line_begins() -> None:
    samples = noise(1, 4.0)[0] * 0.01
    samples[samples.size // 2 :] += line(1000.0, 1.0, 2.0)
    found = waterfall(samples, RATE)
    levels = found.power[:, round(1000 / found.step)]
    assert (levels[found.times > 2.1] > 0.5).all()
    assert (levels[found.times < 1.9] < 0.1).all()
