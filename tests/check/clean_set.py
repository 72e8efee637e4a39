"""A clean set of recordings: a machine with three channels, three classes, four speeds and three repetitions."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

from cgsa.check.recordings import LabelledRecording
from cgsa.data.recording import FloatArray, Recording

RATE, SAMPLES = 1000.0, 6000
CLASSES = {"health": 0.3, "wear": 0.8, "crack": 1.6}
"""Strength of the harmonics of each class."""
SPEEDS = (900.0, 1200.0, 1500.0, 1800.0)
CHANNELS = {"a": (1.0, 0.9), "b": (3.0, -0.6), "c": (0.5, 0.1)}
"""Gain and colour of the noise of each channel."""
REPETITIONS = 3


def signal_at(label: str, speed: float, seed: int) -> FloatArray:
    """Return harmonics of the speed with noise of another colour in each channel."""
    rng = np.random.default_rng(seed)
    time = np.arange(SAMPLES) / RATE
    rows = []
    for gain, pole in CHANNELS.values():
        noise = lfilter([1.0], [1.0, -pole], rng.normal(size=SAMPLES + 200))[200:]
        phases = rng.uniform(0, 2 * np.pi, 6)
        lines = sum(
            np.cos(2 * np.pi * order * speed / 60 * time + phase) / order
            for order, phase in zip((1, 2, 3, 5, 7, 10), phases, strict=True)
        )
        rows.append(gain * (noise + 2 * CLASSES[label] * lines))
    return np.asarray(rows, np.float32)


@cache
def clean_set() -> tuple[LabelledRecording, ...]:
    """Return the recordings, in memory."""
    circumstances = [
        (label, speed, number) for label in CLASSES for speed in SPEEDS for number in range(1, REPETITIONS + 1)
    ]
    return tuple(_recording(*one, seed) for seed, one in enumerate(circumstances))


def _recording(label: str, speed: float, number: int, seed: int) -> LabelledRecording:
    name = f"{label}_run{number}__{speed:g}rpm"
    recording = Recording(
        signal_at(label, speed, seed), RATE, tuple(CHANNELS), ("g",) * len(CHANNELS), label=label, source=name
    )
    return LabelledRecording(name, lambda: (recording,), label, {"speed_rpm": speed}, session=f"repetition {number}")


def write_set(folder: Path, recordings: tuple[LabelledRecording, ...] | None = None) -> Path:
    """Write recordings as a set with a meta.json."""
    files = []
    for one in clean_set() if recordings is None else recordings:
        [recording] = one.parts()
        np.savez(folder / f"{one.name}.npz", x=recording.signal.T)
        number = int(one.name.partition("_run")[2][0])
        files.append({"file": f"{one.name}.npz", "class": one.label, "condition": one.conditions, "run": number})
    meta = {"fs": RATE, "channels": list(CHANNELS), "units": "g", "files": files}
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder
