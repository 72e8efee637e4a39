"""The meter of a machine: the levels of all channels over one batch of windows."""

from __future__ import annotations

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
    rms_and_peak,
    velocity_conversion,
    velocity_rms,
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
        for channel, usable in enumerate(np.isin(flags.codes, MEASURED)):
            first, count = longest_run(usable)
            part = samples[channel, first * spec.step : (first + count - 1) * spec.step + spec.length]
            # Between disjoint windows there are samples that nobody has checked.
            if count and np.isfinite(part).all():
                levels[channel] = *rms_and_peak(part), self._velocity(channel, part)
        return levels

    def _velocity(self, channel: int, samples: FloatArray) -> float:
        conversion = velocity_conversion(self._manifest.units[channel])
        if self.band is None or conversion is None or self._manifest.channels[channel] in self.without_velocity:
            return nan
        factor, integrations = conversion
        found = velocity_rms(samples, self._manifest.sample_rate, self.band, integrations=integrations)
        return nan if found is None else factor * found

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
