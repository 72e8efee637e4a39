from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cgsa.errors import DataError
from cgsa.service.dashboard.spectra import Lines, envelope, parse_orders, power, spectrum


@given(arrays(np.float32, st.integers(1, 500), elements=st.floats(-1e3, 1e3, width=32)), st.integers(2, 60))
def test_envelope_keeps_every_peak_and_the_order(values: np.ndarray, points: int) -> None:
    places, kept = envelope(values, points)
    assert len(places) <= max(points, 2)
    assert (np.diff(places) > 0).all()
    assert kept.max() == values.max()
    assert kept.min() == values.min()
    np.testing.assert_array_equal(kept, values[places.astype(int)].astype(np.float64))


def test_a_sine_stands_at_its_frequency_with_its_amplitude() -> None:
    time = np.arange(1000) / 1000.0
    signal = np.stack([3.0 * np.sin(2 * np.pi * 50 * time), 7.0 + 0 * time]).astype(np.float32)
    seen = spectrum(power(signal), 1000.0, 1000)
    assert seen.resolution == 1.0
    assert seen.frequency[seen.amplitude[0].argmax()] == 50.0
    assert seen.amplitude[0].max() == pytest.approx(3.0, rel=1e-2)
    assert seen.amplitude[1].max() == pytest.approx(0.0, abs=1e-5)


def test_a_long_spectrum_is_joined_without_losing_lines() -> None:
    time = np.arange(20_000) / 10_000.0
    signal = (0.5 * np.sin(2 * np.pi * 1234.5 * time)).astype(np.float32)[None]
    seen = spectrum(power(signal), 10_000.0, 20_000, points=100)
    assert len(seen.frequency) <= 100
    assert seen.amplitude.max() == pytest.approx(0.5, rel=1e-2)
    assert seen.frequency[seen.amplitude[0].argmax()] == pytest.approx(1234.5, abs=60)


def test_lines_are_multiples_of_the_speed() -> None:
    lines = Lines(rpm=1500.0, orders=(1.0, 3.5), harmonics=2)
    assert lines.frequencies(1e9) == [(25.0, "1x"), (50.0, "2·1x"), (87.5, "3.5x"), (175.0, "2·3.5x")]
    assert [frequency for frequency, _ in lines.frequencies(60.0)] == [25.0, 50.0]
    assert Lines().frequencies(1e9) == []


@given(
    st.floats(0, 1e5).map(lambda rpm: float(f"{rpm:g}")),
    st.lists(st.floats(0.01, 9999).map(lambda order: float(f"{order:g}")), min_size=1, max_size=5),
    st.integers(1, 10),
)
def test_a_browser_keeps_lines_as_they_are(rpm: float, orders: list[float], harmonics: int) -> None:
    lines = Lines(rpm, tuple(orders), harmonics)
    assert Lines.parse(lines.to_text()) == lines


@given(st.text(max_size=40))
def test_whatever_a_browser_sends_is_lines_or_none(text: str) -> None:
    found = Lines.parse(text)
    assert found.frequencies(1e4) == Lines.parse(found.to_text()).frequencies(1e4)


@pytest.mark.parametrize("text", ["nan;1;1", "1500;0;1", "1500;1;0", "1500;1;99", "-1;1;1", "inf;1;1", "1;;1", "9"])
def test_impossible_lines_are_none(text: str) -> None:
    assert Lines.parse(text) == Lines()


def test_refuses_orders_that_are_no_numbers() -> None:
    with pytest.raises(DataError, match="numbers between commas"):
        parse_orders("one, two")
