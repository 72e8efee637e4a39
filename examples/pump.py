"""A made-up pump, so that the examples need no download: healthy or worn, at any speed.

The shaft turns, a worn bearing rings at every impact of a ball, and the sensor adds noise. The examples would do the
same with recordings of a real machine.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

RATE = 2048.0
IMPACTS_PER_TURN = 3.6
STATES = ("healthy", "worn")


def record(state: str, speed: float, seconds: float = 6.0, seed: int = 0) -> npt.NDArray[np.float32]:
    """Return samples of two acceleration sensors, (channels, samples); ``speed`` in rpm."""
    rng = np.random.default_rng([STATES.index(state), round(speed), seed])
    time = np.arange(round(seconds * RATE)) / RATE
    turns = np.cumsum(np.full(len(time), speed / 60) * (1 + 0.001 * rng.standard_normal())) / RATE
    signal = np.sin(2 * np.pi * turns) + 0.5 * np.sin(4 * np.pi * turns)
    if state == "worn":
        balls = IMPACTS_PER_TURN * turns
        # Balls slip a little, so that impacts are never quite periodic.
        slip = 0.01 * np.cumsum(rng.standard_normal(int(balls[-1]) + 2))
        phase = balls + np.interp(balls, np.arange(len(slip)), slip)
        since = (phase % 1) / (IMPACTS_PER_TURN * speed / 60)
        signal += 2.5 * np.exp(-80 * since) * np.sin(2 * np.pi * 420 * since)
    second = 0.6 * signal + 0.2 * rng.standard_normal(len(time))
    return np.stack([signal + 0.3 * rng.standard_normal(len(time)), second]).astype(np.float32)


def write_csv(folder: Path, states: tuple[str, ...], speeds: tuple[int, ...], seconds: float = 6.0) -> None:
    """Write one file per state and speed, as a data logger would."""
    folder.mkdir(parents=True, exist_ok=True)
    for state in states:
        for speed in speeds:
            samples = record(state, speed, seconds)
            table = np.column_stack([np.arange(samples.shape[1]) / RATE, samples.T])
            path = folder / f"{state}_{speed}rpm.csv"
            np.savetxt(path, table, "%.5f", ",", header="time,acc_x,acc_y\ns,g,g", comments="")
