"""Signals with known lines and impacts."""

from __future__ import annotations

import numpy as np

from cgsa.data.recording import Recording
from cgsa.explain.kinematics import load_kinematics
from cgsa.explain.spectra import DoubleArray

RATE, SECONDS, SPEED = 8000.0, 6.0, 1500.0
BEARING = load_kinematics("kat_units")
GEOMETRY = BEARING.bearings[0].geometry


def noise(seed: int, seconds: float = SECONDS, channels: int = 1) -> DoubleArray:
    return np.random.default_rng(seed).standard_normal((channels, round(seconds * RATE)))


def impacts(rate: float, size: float, seconds: float = SECONDS) -> DoubleArray:
    """Return impacts that come ``rate`` times a second and excite a resonance at 2 kHz."""
    train = np.zeros(round(seconds * RATE))
    train[(np.arange(0, seconds, 1 / rate) * RATE).astype(int)] = size
    time = np.arange(80) / RATE
    ringing = np.exp(-time * 600) * np.sin(2 * np.pi * 2000 * time)
    # Without a mean, a resonance has no line at the speed of the shaft itself.
    return np.convolve(train, ringing - ringing.mean())[: len(train)]


def line(frequency: float, amplitude: float, seconds: float = SECONDS) -> DoubleArray:
    return np.asarray(amplitude * np.sin(2 * np.pi * frequency * np.arange(round(seconds * RATE)) / RATE))


def recording(signal: DoubleArray, source: str = "test", **conditions: float) -> Recording:
    values = {"speed": SPEED, **conditions}
    count = signal.shape[1]
    return Recording(
        signal.astype(np.float32),
        RATE,
        tuple(f"v{number}" for number in range(len(signal))),
        ("g",) * len(signal),
        {name: np.full(count, value, np.float32) for name, value in values.items()},
        source=source,
    )
