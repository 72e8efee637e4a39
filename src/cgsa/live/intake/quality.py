"""The gate in front of everything: which samples of a live sensor may be believed.

The :class:`QualityGate` looks at the samples themselves; what a sender says about
them is held against the blocks before by :mod:`cgsa.live.intake.continuity`. What either
refuses is told with its reason, and is neither learnt from nor queued.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from cgsa.data.equal_samples import (
    BoolArray,
    EqualSampleCounts,
    window_extremes,
    windows_containing,
    windows_touching_run,
    windows_with_run,
)
from cgsa.data.recording import FloatArray
from cgsa.data.windows import WindowSpec
from cgsa.errors import ConfigError, DataError
from cgsa.live.intake.clipping import ClippingLimits

GOOD = "good"
OUT_OF_RANGE = "out of range"
DROP_OUT = "drop-out"
CLIPPED = "clipped"
FLAT_LINE = "flat line"
INFINITE = "infinite"
NOT_A_NUMBER = "not a number"
WINDOW_REASONS = (GOOD, OUT_OF_RANGE, DROP_OUT, CLIPPED, FLAT_LINE, INFINITE, NOT_A_NUMBER)
"""What each code of a window means. Of several that hold the last one here is told: it explains the others."""

Codes = npt.NDArray[np.int8]

LOWEST_LIMIT = 4
"""So few equal samples are never wrong, however few there were in training."""
DEFAULT_EQUAL_SAMPLES = EqualSampleCounts(in_a_row=4, at_extremes=6)
"""Taken for usual where a model does not say what was; a phone's coarse sensor has them."""


RunDetector = Callable[[FloatArray, WindowSpec, int], BoolArray]


@dataclass(frozen=True)
class QualityConfig:
    """From where on samples, or what is said about them, are not believed.

    What sound recordings are like was counted over 3.2 million windows of two
    simulated and three real machines (``benchmarks/sensor_faults.py``).
    """

    held_samples: int | None = None
    """So many equal samples in a row are a drop-out; where it is not set, half more than usual in training. Of sound
    sensors at most three are equal, of a phone's coarse one four."""
    flat_share: float = 0.5
    """A drop-out over this share of a window is a flat line."""
    clipped_samples: int | None = None
    """So many samples exactly at the largest or smallest value of a window, both together, mean clipping; where it is
    not set, half more than usual in training. Sound windows have two or three, those of a phone six."""
    range_deviations: float = 50.0
    """Further than this from the mean of training, in its deviations, is out of range. Sound recordings stay within 31,
    grave faults of the machine included."""
    rate_tolerance: float = 1e-3
    """By this share a sender's rate may differ from the wanted one: crystals are off by less than a tenth of it."""
    clock_tolerance: float = 0.5
    """Seconds by which a block may come before or after where the samples before it end: networks and schedulers are
    late by less."""

    def __post_init__(self) -> None:
        held, clipped = self.held_samples, self.clipped_samples
        if (held is not None and held < 2) or (clipped is not None and clipped < 3) or not 0 < self.flat_share <= 1:
            raise ConfigError(
                f"held_samples {held}, clipped_samples {clipped}, flat_share {self.flat_share:g}; "
                f"expected at least 2, at least 3 and a share up to 1"
            )
        limits = (self.range_deviations, self.rate_tolerance, self.clock_tolerance)
        if not all(math.isfinite(limit) and limit > 0 for limit in limits):
            raise ConfigError(
                f"range_deviations {limits[0]:g}, rate_tolerance {limits[1]:g}, clock_tolerance {limits[2]:g}; "
                f"expected positive numbers"
            )


@dataclass(frozen=True, eq=False)
class QualityFlags:
    """What is wrong with windows, channel by channel."""

    codes: Codes
    """(channels, windows): place among ``WINDOW_REASONS``; 0 is good."""

    @property
    def worst(self) -> Codes:
        """(windows,): the gravest code over all channels."""
        return np.asarray(self.codes.max(axis=0))

    @property
    def good(self) -> BoolArray:
        """(windows,): whether no channel has anything wrong."""
        return np.asarray(~self.codes.any(axis=0))


class QualityGate:
    """Finds windows whose samples cannot be what the machine did.

    What is said of a window depends on its own samples, on where this sensor is
    known to clip, and on whether a drop-out reaches into it from windows that are
    looked at together. These share the work: they are put together from pieces
    that are looked at once.

    Parameters
    ----------
    config
        The limits.
    spec
        How windows are cut.
    channels
        Of the signal.
    scale
        Mean and deviation of each channel in training; without them nothing is out of range.
    equal_samples
        How many equal samples each channel usually has; without them, more than of a coarse sensor are wrong.
    """

    def __init__(
        self,
        config: QualityConfig,
        spec: WindowSpec,
        channels: int,
        *,
        scale: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        equal_samples: Sequence[EqualSampleCounts] | None = None,
    ) -> None:
        usual = [DEFAULT_EQUAL_SAMPLES] * channels if equal_samples is None else equal_samples
        if len(usual) != channels:
            raise DataError(f"usual equal samples of {len(usual)} channels; expected {channels}")
        self.config = config
        self.spec = spec
        self.channels = channels
        self._held = np.array([_limit(config.held_samples, one.in_a_row) for one in usual])
        self._clipped = np.array([[_limit(config.clipped_samples, one.at_extremes)] for one in usual])
        self._flat = np.maximum(self._held, math.ceil(config.flat_share * spec.length))
        self._range: npt.NDArray[np.float64] | None = None
        if scale is not None:
            mean, deviation = (np.asarray(values, dtype=np.float64).reshape(-1, 1) for values in scale)
            if not len(mean) == len(deviation) == channels or not np.isfinite(mean).all() or not (deviation > 0).all():
                raise DataError(
                    f"training scale of means {mean.ravel()} and deviations {deviation.ravel()}; "
                    f"expected a finite mean and a positive deviation for each of {channels} channels"
                )
            reach = config.range_deviations * deviation
            self._range = np.stack([mean - reach, mean + reach])
        self.reset()

    def reset(self) -> None:
        """Forget where sensors clip."""
        self._rails = ClippingLimits(self.channels)

    def check(self, samples: FloatArray) -> QualityFlags:
        """Return what is wrong with each window that fits into the next samples of a sensor, (channels, samples)."""
        if samples.ndim != 2 or len(samples) != self.channels:
            raise DataError(f"samples of shape {samples.shape}; expected ({self.channels}, samples)")
        count = self.spec.count(samples.shape[1])
        codes = np.zeros((len(samples), count), dtype=np.int8)
        if not count:
            return QualityFlags(codes)
        used = samples[:, : (count - 1) * self.spec.step + self.spec.length]
        finite = np.isfinite(used)
        sound = finite.all()
        known = used if sound else np.where(finite, used, np.nan)
        top = window_extremes(used if sound else np.where(finite, used, -np.inf), self.spec, np.maximum)
        bottom = window_extremes(used if sound else np.where(finite, used, np.inf), self.spec, np.minimum)
        if self._range is not None:
            low, high = self._range
            codes[(bottom[0] < low) | (top[0] > high)] = WINDOW_REASONS.index(OUT_OF_RANGE)
        held = self._by_run(windows_touching_run, known, self._held)
        codes[held] = WINDOW_REASONS.index(DROP_OUT)
        clipped = top[1] + bottom[1] >= self._clipped
        codes[clipped | self._rails.touched(top, bottom, clipped)] = WINDOW_REASONS.index(CLIPPED)
        if held.any():
            codes[self._by_run(windows_with_run, known, self._flat)] = WINDOW_REASONS.index(FLAT_LINE)
        if not sound:
            codes[windows_containing(np.isinf(used), self.spec)] = WINDOW_REASONS.index(INFINITE)
            codes[windows_containing(np.isnan(used), self.spec)] = WINDOW_REASONS.index(NOT_A_NUMBER)
        return QualityFlags(codes)

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next answer depends on, as copies."""
        return self._rails.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state that :meth:`state_dict` returned."""
        self._rails.load_state_dict(state)

    def _by_run(self, look: RunDetector, samples: FloatArray, runs: npt.NDArray[np.int_]) -> BoolArray:
        """Return which windows are found by a look for what makes a run in their channel."""
        found = np.zeros((len(samples), self.spec.count(samples.shape[1])), dtype=np.bool_)
        for run in np.unique(runs):
            found[runs == run] = look(samples[runs == run], self.spec, int(run))
        return found


def _limit(wanted: int | None, usual: int) -> int:
    """Return from how many equal samples on something is wrong: half more than usual, and at least two."""
    return wanted if wanted is not None else max(LOWEST_LIMIT, usual + 2, math.ceil(1.5 * usual))
