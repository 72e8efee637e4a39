from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from cgsa.explain.envelope import EnvelopeMethod, envelope_spectrum, impulsive_band, prewhitened
from tests.explain.signals import RATE, impacts, line, noise


@pytest.mark.parametrize("method", get_args(EnvelopeMethod))
def test_every_envelope_shows_how_often_impacts_come(method: EnvelopeMethod) -> None:
    signal = noise(0) + impacts(76.0, 8.0)
    found = envelope_spectrum(signal, RATE, 2.0, method)
    lines = found.power[0]
    assert found.frequencies[lines[10:].argmax() + 10] == pytest.approx(76.0, abs=found.step)


def test_strong_lines_hide_no_impacts_after_prewhitening() -> None:
    signal = noise(0) + impacts(76.0, 8.0) + 30 * line(300.0, 1.0) + 20 * line(450.0, 1.0)
    found = envelope_spectrum(signal, RATE, 2.0)
    assert found.frequencies[found.power[0][10:].argmax() + 10] == pytest.approx(76.0, abs=found.step)


def test_prewhitening_levels_all_lines_and_keeps_phases() -> None:
    signal = noise(0, channels=2)
    before, after = np.fft.rfft(signal, axis=1), np.fft.rfft(prewhitened(signal), axis=1)
    np.testing.assert_allclose(np.abs(after[:, 1:-1]), 1.0, rtol=1e-9)
    np.testing.assert_allclose(np.angle(after[:, 1:-1]), np.angle(before[:, 1:-1]), atol=1e-6)


def test_the_kurtogram_finds_the_band_of_the_impacts() -> None:
    low, high = impulsive_band((noise(0) + impacts(20.0, 12.0))[0], RATE)
    assert low < 2000 < high
    assert high - low < RATE / 4


def test_a_silent_channel_has_an_empty_envelope() -> None:
    for method in get_args(EnvelopeMethod):
        assert not envelope_spectrum(np.zeros((1, 4000)), RATE, 0.1, method).power.any()
