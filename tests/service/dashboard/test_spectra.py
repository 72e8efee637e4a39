from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.errors import DataError
from cgsa.service.dashboard.spectra import OrderLines, amplitude_spectrum, parse_orders, squared_amplitudes


def test_a_sine_appears_at_its_frequency_with_its_amplitude() -> None:
    time = np.arange(1000) / 1000.0
    signal = np.stack([3.0 * np.sin(2 * np.pi * 50 * time), 7.0 + 0 * time]).astype(np.float32)
    found = amplitude_spectrum(squared_amplitudes(signal), 1000.0, 1000)
    assert found.resolution == 1.0
    assert found.frequency[found.amplitude[0].argmax()] == 50.0
    assert found.amplitude[0].max() == pytest.approx(3.0, rel=1e-2)
    assert found.amplitude[1].max() == pytest.approx(0.0, abs=1e-5)


def test_a_long_spectrum_is_merged_without_losing_lines() -> None:
    time = np.arange(20_000) / 10_000.0
    signal = (0.5 * np.sin(2 * np.pi * 1234.5 * time)).astype(np.float32)[None]
    found = amplitude_spectrum(squared_amplitudes(signal), 10_000.0, 20_000, points=100)
    assert len(found.frequency) <= 100
    assert found.amplitude.max() == pytest.approx(0.5, rel=1e-2)
    assert found.frequency[found.amplitude[0].argmax()] == pytest.approx(1234.5, abs=60)


def test_lines_are_multiples_of_the_speed() -> None:
    lines = OrderLines(rpm=1500.0, orders=(1.0, 3.5), harmonics=2)
    assert lines.frequencies(1e9) == [(25.0, "1x"), (50.0, "2·1x"), (87.5, "3.5x"), (175.0, "2·3.5x")]
    assert [frequency for frequency, _ in lines.frequencies(60.0)] == [25.0, 50.0]
    assert OrderLines().frequencies(1e9) == []


@given(
    st.floats(0, 1e5).map(lambda rpm: float(f"{rpm:g}")),
    st.lists(st.floats(0.01, 9999).map(lambda order: float(f"{order:g}")), min_size=1, max_size=5),
    st.integers(1, 10),
)
def test_lines_survive_the_cookie(rpm: float, orders: list[float], harmonics: int) -> None:
    lines = OrderLines(rpm, tuple(orders), harmonics)
    assert OrderLines.parse(lines.to_text()) == lines


@given(st.text(max_size=40))
def test_any_cookie_gives_valid_lines_or_none(text: str) -> None:
    found = OrderLines.parse(text)
    assert found.frequencies(1e4) == OrderLines.parse(found.to_text()).frequencies(1e4)


@pytest.mark.parametrize("text", ["nan;1;1", "1500;0;1", "1500;1;0", "1500;1;99", "-1;1;1", "inf;1;1", "1;;1", "9"])
def test_invalid_lines_are_none(text: str) -> None:
    assert OrderLines.parse(text) == OrderLines()


def test_refuses_orders_that_are_not_numbers() -> None:
    with pytest.raises(DataError, match="numbers separated by commas"):
        parse_orders("one, two")
