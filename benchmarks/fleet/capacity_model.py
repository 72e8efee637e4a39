"""What a machine of a fleet costs: linear models of processor time and bytes, fitted to measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from scipy.optimize import nnls

BATCH = 256
"""Windows of a batch under the profile ``paper``."""
HIDDEN = (64, 32, 16)
"""Layers of the network that is measured."""
DAY = 86_400.0


@dataclass(frozen=True)
class MachineSetup:
    """How a machine is measured and diagnosed."""

    rate: float
    """Samples per second and channel."""
    channels: int
    length: int
    """Samples of a window."""
    step: int
    block_seconds: float
    learns: bool
    """Whether CGSA adapts to most windows, or to none."""

    @property
    def weights(self) -> int:
        """Numbers of the network's layers."""
        sizes = (self.channels * self.length, *HIDDEN)
        return sum(one * other for one, other in pairwise(sizes))

    @property
    def samples(self) -> float:
        """Values per second, of all channels."""
        return self.rate * self.channels

    @property
    def windows(self) -> float:
        """Windows per second."""
        return self.rate / self.step


Feature: TypeAlias = Callable[[MachineSetup], float]
FEATURES: Mapping[str, Mapping[str, Feature]] = {
    "cpu": {
        "per block": lambda one: 1 / one.block_seconds,
        "per million samples": lambda one: one.samples / 1e6,
        "per batch": lambda one: one.windows / BATCH,
        "per million windows": lambda one: one.windows / 1e6,
        "per billion products": lambda one: one.windows * one.weights / 1e9,
        "per batch learnt": lambda one: one.learns * one.windows / BATCH,
        "per million windows learnt": lambda one: one.learns * one.windows / 1e6,
        "per billion products learnt": lambda one: one.learns * one.windows * one.weights / 1e9,
    },
    "log": {"per block": lambda one: 1 / one.block_seconds, "per sample": lambda one: one.samples},
    "store": {"per batch": lambda one: one.windows / BATCH, "per window": lambda one: one.windows},
    # Adam keeps two moments of each weight, once there was a step.
    "state": {
        "per state": lambda _: 1.0,
        "per weight": lambda one: one.weights,
        "per weight learnt": lambda one: one.learns * one.weights,
    },
    "state_cpu": {
        "per state": lambda _: 1.0,
        "per million weights": lambda one: one.weights / 1e6,
        "per million weights learnt": lambda one: one.learns * one.weights / 1e6,
    },
}
"""Quantity -> what it consists of: seconds of processor time and bytes of log and store per second of signal, bytes and
seconds of processor time of a saved state."""


@dataclass(frozen=True)
class CapacityModel:
    """Coefficients of each quantity."""

    coefficients: Mapping[str, Mapping[str, float]]

    @classmethod
    def fit(cls, setups: Sequence[MachineSetup], measured: Mapping[str, Sequence[float]]) -> CapacityModel:
        """Fit all quantities; no part may be negative, and relative errors count."""
        found = {}
        for quantity, features in FEATURES.items():
            values = np.array(measured[quantity])
            matrix = np.array([[feature(one) for feature in features.values()] for one in setups]) / values[:, None]
            # Columns of different sizes would make the solver stop early.
            scale = matrix.max(axis=0)
            weights, _ = nnls(matrix / scale, np.ones(len(values)))
            found[quantity] = dict(zip(features, (weights / scale).tolist(), strict=True))
        return cls(found)

    def predict(self, quantity: str, setup: MachineSetup) -> float:
        """Return one quantity of a machine."""
        parts = self.coefficients[quantity]
        return sum(parts[name] * feature(setup) for name, feature in FEATURES[quantity].items())

    def load(self, setup: MachineSetup, checkpoint_seconds: float) -> float:
        """Return the seconds of processor time that a machine needs per second, with its saved states."""
        return self.predict("cpu", setup) + self.predict("state_cpu", setup) / checkpoint_seconds

    def per_day(self, setup: MachineSetup, checkpoint_seconds: float) -> Mapping[str, float]:
        """Return the bytes that a machine writes in a day."""
        return {
            "log": DAY * self.predict("log", setup),
            "states": DAY / checkpoint_seconds * self.predict("state", setup),
            "store": DAY * self.predict("store", setup),
        }
