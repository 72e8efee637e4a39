"""Machines and recordings of the toy machine for estimators."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from cgsa.data.recording import FloatArray
from cgsa.estimators.classifier import CgsaClassifier
from cgsa.estimators.machine import Machine
from tests.machines import CLASSES, RATE, ToyLibrary, ensemble_bundle
from tests.starts import steady

SAMPLES = 1000
"""Length of a recording: a second, which a scenario takes for a level that is held."""
QUICK: dict[str, object] = {
    "default_objective": "plain",
    "window": {"length": 64},
    "network": {"hidden": [8], "tap": 8},
    "train": {"step": 64, "epochs": 2},
}
"""Settings of a training of milliseconds, for tests of what is around it."""


def machine() -> Machine:
    return Machine(ensemble_bundle())


def commissioned() -> Machine:
    found = machine()
    found.commission(steady("health"), sample_rate=RATE)
    return found


def windows_of(samples: FloatArray, step: int) -> FloatArray:
    """Return windows of the length of the toy ensemble, (windows, channels, length)."""
    length = ensemble_bundle().manifest.window.length
    views = np.lib.stride_tricks.sliding_window_view(samples, length, axis=1)
    return np.ascontiguousarray(views[:, ::step].transpose(1, 0, 2))


@cache
def labelled() -> tuple[FloatArray, npt.NDArray[np.str_], npt.NDArray[np.float64], npt.NDArray[np.str_]]:
    """Return recordings (recordings, channels, samples), their labels, torques and assemblies."""
    signals, labels, torques, units = [], [], [], []
    for specimen in (1, 2):
        for state in CLASSES[:2]:
            run = ToyLibrary().get(state, "low", severity="H", specimen=specimen).signal
            for begin, torque in ((2000, 10.0), (6000, 5.0)):
                signals.append(run[:, begin : begin + SAMPLES])
                labels.append(state)
                torques.append(torque)
                units.append(f"unit {specimen}")
    return np.stack(signals), np.array(labels), np.array(torques), np.array(units)


@cache
def fitted() -> CgsaClassifier:
    """Return an ensemble fitted to the labelled recordings; do not change it."""
    signals, labels, torques, units = labelled()
    return CgsaClassifier(sample_rate=RATE).fit(signals, labels, conditions=torques, units=units)
