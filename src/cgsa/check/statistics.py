"""Statistics of one channel, measured block by block: extremes, equal samples and missing values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cgsa.data.recording import FloatArray

KEPT_EXTREMES = 64
"""Largest and smallest values that are kept."""
SAMPLED = 1 << 16
"""Samples at the start that are searched for different values."""
CENTRAL = (0.05, 0.95)
"""Quantiles between which different values are counted, so that rare extremes do not matter."""


@dataclass(frozen=True)
class EqualRun:
    """The longest run of equal samples."""

    length: int = 0
    begin: int = 0
    value: float = 0.0


@dataclass(frozen=True, eq=False)
class ExtremeValues:
    """The largest or the smallest different values of a channel, each with the number of samples that have it."""

    values: FloatArray
    """The most extreme one first."""
    counts: npt.NDArray[np.int64]

    @property
    def extreme(self) -> float:
        """The most extreme value; NaN if there is none."""
        return float(self.values[0]) if len(self.values) else float("nan")

    @property
    def at_extreme(self) -> int:
        """Samples at exactly the most extreme value."""
        return int(self.counts[0]) if len(self.counts) else 0


@dataclass(frozen=True, eq=False)
class ChannelStatistics:
    """Statistics of the finite samples of a channel."""

    samples: int
    missing: int
    """Samples that are NaN or infinite."""
    first_missing: int | None
    mean: float
    deviation: float
    """Standard deviation."""
    top: ExtremeValues
    bottom: ExtremeValues
    run: EqualRun
    repeated: float
    """Share of samples that equal the one before."""
    values: int
    """Different values between the central quantiles of the first samples."""

    @property
    def constant(self) -> bool:
        """Whether all finite samples are equal, or there are none."""
        return self.samples == self.missing or self.top.extreme == self.bottom.extreme


class StatisticsMeter:
    """Measures the statistics of one channel from successive blocks."""

    def __init__(self) -> None:
        self._samples = self._missing = self._equal = 0
        self._first_missing: int | None = None
        self._shift: float | None = None
        self._sum = self._squares = 0.0
        # Of the inverted samples for the smallest values, so that both are largest.
        self._kept = [ExtremeValues(np.empty(0, np.float32), np.empty(0, np.int64)) for _ in range(2)]
        self._open, self._run = EqualRun(), EqualRun()
        self._start: list[FloatArray] = []

    def add(self, samples: FloatArray) -> None:
        """Add the next samples."""
        finite = samples[np.isfinite(samples)]
        if len(finite) < len(samples):
            if self._first_missing is None:
                self._first_missing = self._samples + int((~np.isfinite(samples)).argmax())
            self._missing += len(samples) - len(finite)
        if len(finite):
            self._add_moments(finite)
            self._kept = [
                _with_largest(kept, signed) for kept, signed in zip(self._kept, (finite, -finite), strict=True)
            ]
            if self._samples < SAMPLED:
                self._start.append(finite[: SAMPLED - self._samples].copy())
        self._add_runs(samples)
        self._samples += len(samples)

    def result(self) -> ChannelStatistics:
        """Return the statistics of all samples so far."""
        count = max(1, self._samples - self._missing)
        mean = self._sum / count
        run = max(self._run, self._open, key=lambda one: one.length)
        return ChannelStatistics(
            self._samples,
            self._missing,
            self._first_missing,
            (self._shift or 0.0) + mean,
            float(np.sqrt(max(0.0, self._squares / count - mean**2))),
            self._kept[0],
            ExtremeValues(-self._kept[1].values, self._kept[1].counts),
            run,
            self._equal / max(1, self._samples - 1),
            different_values(np.concatenate(self._start)) if self._start else 0,
        )

    def _add_moments(self, finite: FloatArray) -> None:
        # About the first mean: squares of a large offset would swallow the signal.
        if self._shift is None:
            self._shift = float(finite.mean(dtype=np.float64))
        about = finite.astype(np.float64) - self._shift
        self._sum += float(about.sum())
        self._squares += float(about @ about)

    def _add_runs(self, samples: FloatArray) -> None:
        begins = np.concatenate([[0], np.flatnonzero(samples[1:] != samples[:-1]) + 1])
        lengths = np.diff(np.append(begins, len(samples)))
        self._equal += len(samples) - len(begins)
        joins = self._open.length > 0 and float(samples[0]) == self._open.value
        if joins:
            self._equal += 1
            first = EqualRun(self._open.length + int(lengths[0]), self._open.begin, self._open.value)
        else:
            self._run = max(self._run, self._open, key=lambda one: one.length)
            first = EqualRun(int(lengths[0]), self._samples, float(samples[0]))
        if len(begins) == 1:
            self._open = first
            return
        self._run = max(self._run, first, key=lambda one: one.length)
        longest = 1 + int(lengths[1:].argmax())
        begin = int(begins[longest])
        middle = EqualRun(int(lengths[longest]), self._samples + begin, float(samples[begin]))
        self._run = max(self._run, middle, key=lambda one: one.length)
        self._open = EqualRun(int(lengths[-1]), self._samples + int(begins[-1]), float(samples[-1]))


def different_values(samples: FloatArray) -> int:
    """Return how many different values samples have between their central quantiles."""
    low, high = np.quantile(samples, CENTRAL)
    return len(np.unique(samples[(samples >= low) & (samples <= high)]))


def _with_largest(kept: ExtremeValues, samples: FloatArray) -> ExtremeValues:
    """Return the largest values so far, counted in further samples, too."""
    full = len(kept.values) == KEPT_EXTREMES
    # No sample below the last of a full list can be among the largest values.
    values, counts = np.unique(samples[samples >= kept.values[-1]] if full else samples, return_counts=True)
    joined, places = np.unique(np.concatenate([kept.values, values]), return_inverse=True)
    total = np.bincount(places, weights=np.concatenate([kept.counts, counts])).astype(np.int64)
    return ExtremeValues(joined[::-1][:KEPT_EXTREMES], total[::-1][:KEPT_EXTREMES])
