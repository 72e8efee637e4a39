from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cgsa.explain.evidence import LEAST, MOST, compare_spectra, line_evidence, noise_floor, pooled_comparison
from cgsa.explain.spectra import AveragedSpectrum, averaged_spectrum
from tests.explain.signals import RATE, line, noise


def spectrum(seed: int, *lines: tuple[float, float]) -> AveragedSpectrum:
    signal = noise(seed) + sum((line(frequency, size) for frequency, size in lines), np.zeros(1))
    return averaged_spectrum(signal, RATE, round(RATE))


def test_only_a_new_line_is_evidence() -> None:
    current = spectrum(0, (500.0, 2.0), (900.0, 2.0))
    evidence = line_evidence(current, [spectrum(1, (500.0, 2.0)), spectrum(2, (500.0, 2.0))])[0]
    assert evidence[900] > 6
    assert evidence[500] < 1
    assert np.median(evidence) < 0.5


def test_a_line_that_moved_a_little_is_not_new() -> None:
    evidence = line_evidence(spectrum(0, (502.0, 2.0)), [spectrum(1, (500.0, 2.0))])[0]
    assert evidence[502] < 1


def test_without_healthy_spectra_the_surroundings_count() -> None:
    evidence = line_evidence(spectrum(0, (500.0, 2.0)), [])[0]
    assert evidence[500] > 6


@given(st.floats(0.001, 1000.0))
def test_the_gain_of_the_sensor_does_not_matter_to_relative_evidence(gain: float) -> None:
    current, healthy = spectrum(0, (500.0, 1.0)), spectrum(1)
    louder = AveragedSpectrum(gain * current.power, current.step)
    first, second = (line_evidence(one, [healthy], relative=True) for one in (current, louder))
    np.testing.assert_allclose(first, second, atol=1e-6)


def test_evidence_has_bounds_even_for_silence() -> None:
    silent = AveragedSpectrum(np.zeros((1, 200)), 1.0)
    loud = AveragedSpectrum(np.where(np.arange(200) == 50, 1e12, 1e-12)[None], 1.0)
    for current, healthy in ((silent, loud), (loud, silent), (silent, silent)):
        evidence = line_evidence(current, [healthy])
        assert np.isfinite(evidence).all()
        assert LEAST <= evidence.min() <= evidence.max() <= MOST


def test_a_rise_is_measured_against_the_highest_healthy_spectrum() -> None:
    found = compare_spectra(spectrum(0, (500.0, 10.0)), [spectrum(1, (500.0, 1.0)), spectrum(2, (500.0, 0.5))])
    assert abs(found.rise(0, 500) - 20.0) < 1.0


def test_the_floor_is_the_median_around_a_line() -> None:
    rng = np.random.default_rng(0)
    logs = rng.standard_normal((1, 400))
    floor = noise_floor(logs, 1.0)
    assert floor[0, 214] == np.median(logs[0, 214 - 15 : 214 + 16]) or abs(floor[0, 214] - np.median(logs[0])) < 1
    assert noise_floor(logs[:, :2], 1.0).shape == (1, 2)


def test_pooled_evidence_is_the_mean() -> None:
    several = [compare_spectra(spectrum(seed, (500.0, 0.3)), [spectrum(9)]) for seed in (0, 1, 2, 3)]
    found = pooled_comparison(several)
    np.testing.assert_allclose(found.evidence, sum(one.evidence for one in several) / 4)
    assert found.current is several[0].current
    # Noise averages out, the line does not.
    assert found.evidence.std() < 0.8 * several[0].evidence.std()
    assert found.evidence[0, 500] > 3
