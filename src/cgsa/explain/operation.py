"""The speed and the supply frequency of a recording, and the healthy recordings nearest to its condition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cgsa.data.recording import Recording
from cgsa.errors import ConfigError, DataError
from cgsa.explain.kinematics import Kinematics, Motor
from cgsa.explain.spectra import AveragedSpectrum

SAME_CONDITION = 0.02
"""Relative differences of the conditions that make no difference."""
SLIP_RANGE = (0.98, 1.12)
"""Where the supply frequency is looked for, over pole pairs times the speed of the rotor."""
SPEEDS = frozenset({"speed", "rpm"})
"""Names of conditions that are a speed in rpm, beside those that end with ``_rpm``."""
CURRENT_UNITS = frozenset({"A", "mA"})


def speed_trace(recording: Recording, given: float | None = None) -> npt.NDArray[np.floating] | None:
    """Return the speed in rpm at every sample: the given one, or the condition that is a speed; None without any."""
    if given is not None:
        if not given > 0:
            raise ConfigError(f"speed {given:g} rpm; expected a positive number")
        return np.full(recording.samples, given)
    found = [trace for name, trace in recording.conditions.items() if name in SPEEDS or name.endswith("_rpm")]
    return found[0] if found and float(np.mean(found[0], dtype=np.float64)) > 0 else None


def nearest_healthy(recording: Recording, healthy: Sequence[Recording]) -> list[Recording]:
    """Return the healthy recordings at the nearest condition: one, or several at the same."""
    if not healthy:
        return []
    apart = [_condition_distance(recording, one) for one in healthy]
    return [one for one, distance in zip(healthy, apart, strict=True) if distance <= min(apart) + SAME_CONDITION]


def condition_text(recording: Recording) -> str:
    """Return the mean conditions, such as ``torque 10, speed 1000``; empty without any."""
    return ", ".join(f"{name} {value:.4g}" for name, value in _means(recording).items())


def _condition_distance(a: Recording, b: Recording) -> float:
    first, second = _means(a), _means(b)
    shared = first.keys() & second.keys()
    return sum(abs(first[name] - second[name]) / max(abs(first[name]), abs(second[name]), 1e-9) for name in shared)


def _means(recording: Recording) -> dict[str, float]:
    return {name: float(np.mean(trace, dtype=np.float64)) for name, trace in recording.conditions.items()}


def current_channels(recording: Recording, machine: Kinematics | None = None) -> set[int]:
    """Return the index of every channel that measures a current."""
    named = machine.motor.current if machine is not None and machine.motor is not None else None
    pairs = enumerate(zip(recording.channels, recording.units, strict=True))
    return {place for place, (name, unit) in pairs if unit in CURRENT_UNITS or name == named}


def supply_frequency(motor: Motor | None, rotor: float, spectrum: AveragedSpectrum, channels: Sequence[str]) -> float:
    """Return the supply frequency in Hz of a motor whose rotor turns at ``rotor`` Hz; 0 without a motor."""
    if motor is None:
        return 0.0
    if motor.supply is not None:
        return motor.supply
    if motor.slip is not None:
        return motor.pole_pairs * rotor / (1 - motor.slip)
    if motor.current is None or motor.current not in channels:
        raise DataError(f"motor.current: no channel {motor.current!r}; there are {', '.join(channels)}")
    low, high = (round(factor * motor.pole_pairs * rotor / spectrum.step) for factor in SLIP_RANGE)
    lines = spectrum.power[list(channels).index(motor.current)][low : high + 2]
    if not len(lines):
        raise DataError(f"the supply frequency near {motor.pole_pairs * rotor:g} Hz is beyond the spectrum")
    return float((low + int(lines.argmax())) * spectrum.step)
