from __future__ import annotations

import numpy as np
import pytest

from cgsa.data.recording import Recording
from cgsa.data.resampling import resample
from cgsa.errors import DataError


def tone(rate: float, frequency: float = 50.0, offset: float = 3.0) -> Recording:
    time = np.arange(int(rate)) / rate
    signal = (offset + np.sin(2 * np.pi * frequency * time)).astype(np.float32)[None]
    return Recording(signal, rate, ("x",), ("g",), {"speed": (1000 * time).astype(np.float32)}, offset=100)


@pytest.mark.parametrize("rate", [6400.0, 25_600.0, 12_000.0])
def test_a_tone_keeps_its_frequency_and_its_mean(rate: float) -> None:
    found = resample(tone(12_800.0), rate)

    assert found.sample_rate == rate
    assert found.samples == rate
    inner = slice(int(rate / 10), -int(rate / 10))
    np.testing.assert_allclose(found.signal[:, inner], tone(rate).signal[:, inner], atol=2e-3)
    np.testing.assert_allclose(found.conditions["speed"][inner], tone(rate).conditions["speed"][inner], atol=1e-2)
    assert f"resampled from 12800 Hz to {rate:g} Hz" in found.notes[0]


def test_what_the_new_rate_cannot_hold_is_removed() -> None:
    found = resample(tone(12_800.0, frequency=3000.0), 3200.0)

    assert np.abs(found.signal[:, 100:-100] - 3).max() < 0.01


def test_the_same_rate_changes_nothing() -> None:
    recording = tone(12_800.0)

    assert resample(recording, 12_800.0) is recording


@pytest.mark.parametrize("rate", [0.0, -1.0, 12_800 * np.pi])
def test_a_rate_without_a_simple_ratio_is_refused(rate: float) -> None:
    with pytest.raises(DataError, match="cannot resample"):
        resample(tone(12_800.0), rate)
