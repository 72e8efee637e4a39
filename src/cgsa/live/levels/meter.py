"""The meter of a machine: the levels of all channels over one batch of windows."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import numpy as np
import numpy.typing as npt

from cgsa.data.recording import FloatArray
from cgsa.events import LevelQuantity
from cgsa.live.intake.quality import CLIPPED, GOOD, OUT_OF_RANGE, WINDOW_REASONS, QualityFlags
from cgsa.live.levels.overall import (
    MIN_PERIODS,
    measurable_band,
    plain_unit,
    rms_and_peaks,
    velocities_rms,
    velocity_conversion,
)
from cgsa.metrics.accuracy import DoubleArray
from cgsa.nn.bundle import Manifest

MEASURED = [WINDOW_REASONS.index(reason) for reason in (GOOD, OUT_OF_RANGE, CLIPPED)]
"""Windows that are measured. A machine that shakes too much for its sensor is clipped or out of range, and the level is
then higher than measured; a drop-out or flat line says nothing about the machine."""


class LevelMeter:
    """Measures RMS, peak and velocity of each channel; ``batch_samples`` is the usual number of samples in a batch."""

    def __init__(self, manifest: Manifest, band: tuple[float, float], *, batch_samples: int) -> None:
        self._manifest = manifest
        self.band = measurable_band(band, manifest.sample_rate)
        """Frequencies of the velocity in Hz; None if there is none."""
        self.without_velocity = self._without_velocity(band, batch_samples)
        """Why a channel has no velocity, by channel."""
        self._conversions = self._velocity_conversions()
        self.note = self._note(band)
        """Why there is no velocity, or not within the whole band; None if neither is so."""

    def unit(self, channel: int, quantity: LevelQuantity) -> str:
        """Return the unit of a level."""
        return "mm/s" if quantity == "velocity" else plain_unit(self._manifest.units[channel])

    def measure(self, samples: FloatArray, flags: QualityFlags) -> DoubleArray:
        """Return the levels of a batch, (channels, quantities); NaN where there is none.

        They are those of the longest part of the batch, (channels, samples), without a drop-out.
        """
        spec = self._manifest.window
        levels = np.full((len(samples), 3), nan)
        for (first, count), channels in channels_by_run(np.isin(flags.codes, MEASURED)).items():
            part = samples[channels][:, first * spec.step : (first + count - 1) * spec.step + spec.length]
            # Between disjoint windows there are samples that nobody has checked.
            sound = np.isfinite(part).all(axis=1)
            known = [channels[row] for row in np.flatnonzero(sound)]
            if count and known:
                levels[known, :2] = rms_and_peaks(part[sound])
                levels[known, 2] = self._velocities(known, part[sound])
        return levels

    def _velocities(self, channels: Sequence[int], samples: FloatArray) -> DoubleArray:
        """Return the velocities of some channels, whose samples are given; NaN for those without one."""
        found = np.full(len(channels), nan)
        for integrations, factors in self._conversions.items():
            rows = [row for row, channel in enumerate(channels) if channel in factors]
            if self.band is None or not rows:
                continue
            velocities = velocities_rms(samples[rows], self._manifest.sample_rate, self.band, integrations=integrations)
            if velocities is not None:
                found[rows] = [factors[channels[row]] * one for row, one in zip(rows, velocities, strict=True)]
        return found

    def _velocity_conversions(self) -> dict[int, dict[int, float]]:
        """Return the factors of the channels that have a velocity, by the number of integrations."""
        found: dict[int, dict[int, float]] = {}
        for channel, (name, unit) in enumerate(zip(self._manifest.channels, self._manifest.units, strict=True)):
            conversion = velocity_conversion(unit)
            if conversion is not None and name not in self.without_velocity:
                found.setdefault(conversion[1], {})[channel] = conversion[0]
        return found

    def _without_velocity(self, band: tuple[float, float], batch_samples: int) -> dict[str, str]:
        rate, reason = self._manifest.sample_rate, None
        if self.band is None:
            reason = f"a sample rate of {rate:g} Hz is too low for {band[0]:g} to {band[1]:g} Hz"
        elif batch_samples * band[0] < MIN_PERIODS * rate:
            reason = f"a batch of {batch_samples / rate:.2g} s is too short for {band[0]:g} Hz"
        named = zip(self._manifest.channels, self._manifest.units, strict=True)
        return {
            name: reason or f"its unit is {unit or 'not known'}, not one of acceleration or velocity"
            for name, unit in named
            if reason is not None or velocity_conversion(unit) is None
        }

    def _note(self, band: tuple[float, float]) -> str | None:
        named = zip(self._manifest.channels, self._manifest.units, strict=True)
        vibrations = [name for name, unit in named if velocity_conversion(unit) is not None]
        missing = [self.without_velocity[name] for name in vibrations if name in self.without_velocity]
        if missing:
            return f"no velocity: {missing[0]}"
        if vibrations and self.band is not None and self.band[1] < band[1]:
            return (
                f"velocity up to {self.band[1]:.4g} instead of {band[1]:g} Hz: the sample rate is "
                f"{self._manifest.sample_rate:g} Hz"
            )
        return None


def channels_by_run(usable: npt.NDArray[np.bool_]) -> dict[tuple[int, int], list[int]]:
    """Return the channels of (channels, windows) by the first index and length of their longest run of true values."""
    if usable.all():
        return {(0, usable.shape[1]): list(range(len(usable)))}
    found: dict[tuple[int, int], list[int]] = {}
    for channel, row in enumerate(usable):
        found.setdefault(longest_run(row), []).append(channel)
    return found


def longest_run(usable: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Return the first index and the length of the longest run of true values; the first one of several.

    >>> longest_run(np.array([True, False, True, True]))
    (2, 2)
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], usable, [False]]).astype(np.int8)))
    if not len(edges):
        return 0, 0
    begins, lengths = edges[::2], edges[1::2] - edges[::2]
    longest = int(lengths.argmax())
    return int(begins[longest]), int(lengths[longest])
