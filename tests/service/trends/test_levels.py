from __future__ import annotations

import numpy as np
import pytest

from cgsa.data.recording import Recording
from cgsa.service.trends.levels import LINES, band_names, mean_levels, measure_piece

RATE = 12_800.0


def sine(frequency: float, amplitude: float = 2.0, seconds: float = 1.0, rate: float = RATE) -> Recording:
    time = np.arange(round(seconds * rate)) / rate
    signal = np.stack([amplitude * np.sin(2 * np.pi * frequency * time), np.cos(7 * time) + 3])
    return Recording(signal.astype(np.float32), rate, ("a", "b"), ("g", "g"))


def test_a_sine_has_its_rms_kurtosis_and_band() -> None:
    found = measure_piece(sine(620.0))
    assert found is not None
    rms, kurtosis, *bands = found.values[0].tolist()
    assert rms == pytest.approx(np.sqrt(2), rel=1e-3)
    assert kurtosis == pytest.approx(1.5, rel=1e-3)
    names = band_names(RATE, len(bands))
    assert names[-1] == "3200 to 6400 Hz"
    assert dict(zip(names, bands, strict=True))["400 to 800 Hz"] == pytest.approx(np.sqrt(2), rel=1e-2)
    assert sorted(bands)[-2] < 0.02
    assert found.decibels.shape == (2, LINES)
    assert int(found.decibels[0].argmax()) == int(620 / (RATE / 2 / LINES))


def test_kurtosis_is_that_of_the_samples() -> None:
    noise = np.random.default_rng(0).standard_normal((1, round(RATE)))
    noise[0, ::400] += 20
    found = measure_piece(Recording(noise.astype(np.float32), RATE, ("a",), ("g",)))
    assert found is not None
    centred = [float(value) for value in noise[0] - noise[0].mean()]
    square = sum(value**2 for value in centred) / len(centred)
    assert found.values[0, 1] == pytest.approx(sum(value**4 for value in centred) / len(centred) / square**2, rel=1e-4)


def test_slow_sensors_have_fewer_bands_and_short_pieces_none() -> None:
    slow = measure_piece(sine(10.0, rate=100.0))
    assert slow is not None
    assert slow.values.shape[1] - 2 == len(band_names(100.0, 3))
    assert measure_piece(sine(10.0, seconds=0.002)) is None
    assert measure_piece(Recording(np.zeros((1, 5000), np.float32), RATE, ("a",), ("g",))) is None


def test_means_are_those_of_powers() -> None:
    one, two = measure_piece(sine(600.0, 1.0)), measure_piece(sine(600.0, 3.0))
    assert one is not None
    assert two is not None
    mean = mean_levels([one, two], [3, 1])
    assert mean.values[0, 0] == pytest.approx(np.sqrt((3 * 0.5 + 4.5) / 4), rel=1e-3)
    assert mean.values[0, 1] == pytest.approx(1.5, rel=1e-3)
