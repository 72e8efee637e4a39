from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cgsa.errors import ConfigError, DataError
from cgsa.explain.kinematics import Motor
from cgsa.explain.operation import (
    condition_text,
    current_channels,
    nearest_healthy,
    speed_trace,
    supply_frequency,
)
from cgsa.explain.spectra import averaged_spectrum
from tests.explain.signals import RATE, SPEED, line, noise, recording


def test_the_speed_is_the_given_one_or_a_condition() -> None:
    known = recording(noise(0))
    found = speed_trace(known)
    assert found is not None
    assert found.mean() == SPEED
    given = speed_trace(known, 900.0)
    assert given is not None
    assert (given == 900.0).all()
    assert speed_trace(replace(known, conditions={})) is None
    assert speed_trace(replace(known, conditions={"speed": np.zeros(known.samples, np.float32)})) is None
    with pytest.raises(ConfigError, match="expected a positive number"):
        speed_trace(known, 0.0)


def test_the_nearest_condition_counts() -> None:
    current = recording(noise(0), torque=10.0)
    healthy = [recording(noise(1), source=f"{torque}", torque=torque) for torque in (5.0, 10.1, 9.95, 20.0)]
    assert [one.source for one in nearest_healthy(current, healthy)] == ["10.1", "9.95"]
    assert nearest_healthy(current, []) == []
    assert condition_text(current) == "speed 1500, torque 10"


def test_the_supply_frequency_is_fixed_or_follows_from_slip_or_current() -> None:
    signal = noise(0) * 0.1 + line(51.0, 5.0)
    spectrum = averaged_spectrum(signal, RATE, round(RATE))
    channels = ("current",)
    assert supply_frequency(None, 25.0, spectrum, channels) == 0.0
    assert supply_frequency(Motor("rotor", 2, supply=50.0), 24.5, spectrum, channels) == 50.0
    assert supply_frequency(Motor("rotor", 2, slip=0.02), 24.5, spectrum, channels) == pytest.approx(50.0)
    assert supply_frequency(Motor("rotor", 2, current="current"), 25.0, spectrum, channels) == pytest.approx(51.0)
    with pytest.raises(DataError, match="no channel 'i'; there are current"):
        supply_frequency(Motor("rotor", 2, current="i"), 25.0, spectrum, channels)
    with pytest.raises(DataError, match="beyond the spectrum"):
        supply_frequency(Motor("rotor", 2, current="current"), 1e5, spectrum, channels)


def test_channels_in_ampere_are_currents() -> None:
    assert current_channels(replace(recording(noise(0, channels=3)), units=("g", "A", "mA"))) == {1, 2}
