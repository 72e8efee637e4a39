from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from cgsa.explain.envelope import EnvelopeMethod, band_passed, envelope_spectra, impulsive_band, prewhitened
from tests.explain.signals import RATE, impacts, line, noise


@pytest.mark.parametrize("method", get_args(EnvelopeMethod))
def test_every_envelope_shows_how_often_impacts_come(method: EnvelopeMethod) -> None:
    signal = noise(0) + impacts(76.0, 8.0)
    found = envelope_spectra(signal, RATE, 2.0, method)[0]
    lines = found.power[0]
    assert found.frequencies[lines[10:].argmax() + 10] == pytest.approx(76.0, abs=found.step)


def test_strong_lines_hide_no_impacts_after_prewhitening() -> None:
    signal = noise(0) + impacts(76.0, 8.0) + 30 * line(300.0, 1.0) + 20 * line(450.0, 1.0)
    [found] = envelope_spectra(signal, RATE, 2.0, "prewhitened")
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
        assert not any(one.power.any() for one in envelope_spectra(np.zeros((1, 4000)), RATE, 0.1, method))


def test_pooled_envelopes_are_those_of_the_signal_and_of_its_bands() -> None:
    signal = noise(0) + (1 + line(76.0, 1.0)) * band_passed(3 * noise(1), RATE, 2200.0, 2800.0)
    white, broad, *bands = envelope_spectra(signal, RATE, 2.0, "pooled")
    np.testing.assert_array_equal(white.power, envelope_spectra(signal, RATE, 2.0, "prewhitened")[0].power)
    np.testing.assert_array_equal(broad.power, envelope_spectra(signal, RATE, 2.0, "broad")[0].power)
    assert len(bands) == 4
    assert {(one.step, one.power.shape) for one in bands} == {(white.step, white.power.shape)}
    line_76 = round(76.0 / white.step)
    heights = [float(one.power[0, line_76] / np.median(one.power[0])) for one in bands]
    assert heights[2] > 10 * max(heights[0], heights[1], heights[3])


def test_bands_add_up_to_the_signal() -> None:
    signal = noise(1, channels=2)
    parts = [
        band_passed(signal, RATE, low, high) for low, high in ((0.0, 999.95), (999.95, 2500.05), (2500.05, 4000.0))
    ]
    np.testing.assert_allclose(sum(parts), signal, atol=1e-9)
    np.testing.assert_allclose(parts[1][1], band_passed(signal[1], RATE, 999.95, 2500.05))
