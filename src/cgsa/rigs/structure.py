"""From forces at the bearings to accelerations at the sensors.

A few modes describe a housing. The mode shape at each bearing determines how a
force there excites the mode, and the shape at each sensor axis how the mode
appears there. Every reassembly of a machine changes all of this a little, so
that each specimen has its own values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.signal as sps

from cgsa.rigs.base import DoubleArray


@dataclass(frozen=True, eq=False)
class Structure:
    """Modes of a housing and how forces and sensors couple to them."""

    frequencies: DoubleArray
    """Natural frequency of each mode in Hz."""
    damping: DoubleArray
    """Damping ratio of each mode."""
    gains: DoubleArray
    """Shape at sensor axis times shape at force over modal mass, (modes, axes, forces), in 1/kg."""

    def respond(self, forces: DoubleArray, rate: float) -> DoubleArray:
        """Return the acceleration at every axis, (axes, samples), under ``forces``, (forces, samples).

        Each mode is the filter ``s^2 / (s^2 + 2 zeta w s + w^2)`` from force to
        acceleration, made discrete by the bilinear transform with its natural
        frequency kept in place.
        """
        total = np.zeros((self.gains.shape[1], forces.shape[1]))
        for frequency, damping, gain in zip(self.frequencies, self.damping, self.gains, strict=True):
            omega = 2 * rate * np.tan(np.pi * frequency / rate)
            b, a = sps.bilinear([1.0, 0.0, 0.0], [1.0, 2 * damping * omega, omega**2], fs=rate)
            total += sps.lfilter(b, a, gain @ forces, axis=1)
        return total

    def with_remounted_sensors(self, rng: np.random.Generator) -> Structure:
        """Return this structure with its sensors mounted again, as before each run.

        The published repeatability of mounting an accelerometer is a few per
        cent, and joints settle with temperature and time.
        """
        return self.reassembled(rng, shift=0.005, spread=0.05)

    def reassembled(self, rng: np.random.Generator, *, shift: float, spread: float) -> Structure:
        """Return this structure reassembled, with relative ``shift`` of the modes and ``spread`` of the gains."""
        return Structure(
            frequencies=self.frequencies * (1 + shift * rng.standard_normal(self.frequencies.shape)),
            damping=self.damping * np.exp(2 * shift * rng.standard_normal(self.damping.shape)),
            gains=self.gains * (1 + spread * rng.standard_normal(self.gains.shape)),
        )
