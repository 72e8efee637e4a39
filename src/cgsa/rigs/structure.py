"""From forces at the bearings to acceleration at the sensors.

A housing is described by a few modes. Each mode is driven by every force
through its shape at that bearing, and is felt at each sensor axis through its
shape there. Whoever takes a machine apart and puts it together again changes
all of this a little, which is why a specimen draws its own.
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
        """Return this structure as another run finds it: sensors put on and screws tightened once more.

        Published repeatability of mounting an accelerometer is a few per cent,
        and joints settle with temperature and time.
        """
        return self.reassembled(rng, shift=0.005, spread=0.05)

    def reassembled(self, rng: np.random.Generator, *, shift: float, spread: float) -> Structure:
        """Return this structure taken apart and put together: relative ``shift`` of modes, ``spread`` of gains."""
        return Structure(
            frequencies=self.frequencies * (1 + shift * rng.standard_normal(self.frequencies.shape)),
            damping=self.damping * np.exp(2 * shift * rng.standard_normal(self.damping.shape)),
            gains=self.gains * (1 + spread * rng.standard_normal(self.gains.shape)),
        )
