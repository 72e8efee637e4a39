"""Starts of the toy machine: a healthy one, and every way to fool a commissioning."""

from __future__ import annotations

import numpy as np

from cgsa.data.recording import FloatArray
from tests.machines import RATE, ToyLibrary

SECONDS = 3.0
STRANGE_LINE = 120.0
"""Frequency of a line that wear has, too, in Hz."""


def steady(state: str, *, strange: float = 0.0) -> FloatArray:
    """Return the steady toy machine; a strange one has a second line even if it is healthy."""
    begin = round(RATE)
    samples = ToyLibrary(seed=5).get(state, "low", severity="H", specimen=1).signal[:, begin:]
    samples = samples[:, : round(SECONDS * RATE)]
    line = strange * np.sin(2 * np.pi * STRANGE_LINE * np.arange(samples.shape[1]) / RATE)
    return np.asarray(samples + np.stack([line, 0.5 * line]), dtype=np.float32)


def _noise(level: float) -> FloatArray:
    rng = np.random.default_rng(0)
    return (level * rng.standard_normal((2, round(SECONDS * RATE)))).astype(np.float32)


def _far_outside() -> FloatArray:
    """A machine with other lines, far from those of any class."""
    time = np.arange(round(SECONDS * RATE)) / RATE
    lines = 3 * np.stack([np.sin(2 * np.pi * 290 * time), np.sin(2 * np.pi * 410 * time)])
    return np.asarray(lines + _noise(0.3), dtype=np.float32)


def _moving() -> FloatArray:
    """A machine that speeds up: its level rises from half to twice that of the healthy one, over and over."""
    healthy = steady("health")
    rise = np.exp(np.linspace(np.log(0.5), np.log(2.0), round(RATE)))
    return np.asarray(healthy * np.tile(rise, round(SECONDS)), dtype=np.float32)


def _clipping() -> FloatArray:
    return np.asarray(np.clip(steady("health"), -0.3, 0.3), dtype=np.float32)


def _disconnected() -> FloatArray:
    samples = steady("health")
    samples[0] = 0.25
    return samples


FOOLING: dict[str, tuple[FloatArray, str]] = {
    "standstill": (_noise(0.01), "waiting: standstill"),
    "noise": (_noise(1.0), "waiting: far from all training data"),
    "far outside": (_far_outside(), "waiting: far from all training data"),
    "clipping": (_clipping(), "waiting: the quality gate rejects too many windows"),
    "disconnected": (_disconnected(), "waiting: the quality gate rejects too many windows"),
    "moving": (_moving(), "waiting: the start was not steady"),
    "fault": (steady("wear"), "question: looks like wear; confirm healthy, or mark as faulty"),
    "strange": (steady("health", strange=2.0), "question: looks like wear; confirm healthy, or mark as faulty"),
}
"""Signals, and how the text of their last status begins."""
