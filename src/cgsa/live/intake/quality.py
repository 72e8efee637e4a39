"""Quality gate: flags windows whose samples show a sensor fault.

The :class:`QualityGate` checks the samples themselves;
:mod:`cgsa.live.intake.continuity` checks what the sender states about them.
Whatever either of them refuses is reported with a reason, and is neither
diagnosed nor used for adaptation.
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
"""Meaning of each code. If several apply, the last of them counts, since it explains the others."""

Codes = npt.NDArray[np.int8]

LOWEST_LIMIT = 4
"""Fewer equal samples are never flagged, however few there were in training."""
DEFAULT_EQUAL_SAMPLES = EqualSampleCounts(in_a_row=4, at_extremes=6)
"""Usual counts for a model that does not state its own; a phone's coarse sensor has these."""
RunDetector = Callable[[FloatArray, WindowSpec, int], BoolArray]


@dataclass(frozen=True)
class QualityConfig:
    """Limits beyond which samples, or their metadata, are not trusted.

    The values for sound recordings were counted over 3.2 million windows of two
    simulated and three real machines (``benchmarks/sensor_faults.py``).
    """

    held_samples: int | None = None
    """This many equal samples in a row are a drop-out; by default half more than usual in training. Sound sensors
    have at most three, a phone's coarse one has four."""
    flat_share: float = 0.5
    """A drop-out over this share of a window is a flat line."""
    clipped_samples: int | None = None
    """This many samples at exactly the largest or smallest value of a window, counted together, mean clipping; by
    default half more than usual in training. Sound windows have two or three, those of a phone six."""
    range_deviations: float = 50.0
    """Samples further than this from the training mean, in standard deviations, are out of range. Sound recordings
    stay within 31, even with severe machine faults."""
    rate_tolerance: float = 1e-3
    """Relative deviation allowed of a sender's rate; crystals deviate by less than a tenth of it."""
    clock_tolerance: float = 0.5
    """Seconds by which a block may start before or after the end of the previous samples; networks and schedulers
    cause less."""

    def __post_init__(self) -> None:
        held, clipped = self.held_samples, self.clipped_samples
        if (held is not None and held < 2) or (clipped is not None and clipped < 3) or not 0 < self.flat_share <= 1:
            raise ConfigError(
                f"held_samples {held}, clipped_samples {clipped}, flat_share {self.flat_share:g}; "
                f"expected at least 2, at least 3 and a share above 0 and up to 1"
            )
        limits = (self.range_deviations, self.rate_tolerance, self.clock_tolerance)
        if not all(math.isfinite(limit) and limit > 0 for limit in limits):
            raise ConfigError(
                f"range_deviations {limits[0]:g}, rate_tolerance {limits[1]:g}, clock_tolerance {limits[2]:g}; "
                f"expected positive numbers"
            )


@dataclass(frozen=True, eq=False)
class QualityFlags:
    """Quality codes of windows, channel by channel."""

    codes: Codes
    """(channels, windows): index into ``WINDOW_REASONS``; 0 is good."""

    @property
    def worst(self) -> Codes:
        """(windows,): the most severe code over all channels."""
        return np.asarray(self.codes.max(axis=0))

    @property
    def good(self) -> BoolArray:
        """(windows,): whether all channels are good."""
        return np.asarray(~self.codes.any(axis=0))


class QualityGate:
    """Flags windows whose samples cannot come from the machine alone.

    The flags of a window depend on its own samples, on the known clipping limits
    of the sensor, and on drop-outs that extend into it from other windows of the
    same call. Overlapping windows share the work.

    ``scale`` has the mean and standard deviation of each channel in training; without
    it nothing is out of range. ``equal_samples`` says how many equal samples each
    channel usually has; by default those of a coarse sensor.
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
        usual_counts = [DEFAULT_EQUAL_SAMPLES] * channels if equal_samples is None else equal_samples
        if len(usual_counts) != channels:
            raise DataError(f"usual equal samples for {len(usual_counts)} channels; expected {channels}")
        self.config = config
        self.spec = spec
        self.channels = channels
        self._held = np.array([_limit(config.held_samples, usual.in_a_row) for usual in usual_counts])
        self._clipped = np.array([[_limit(config.clipped_samples, usual.at_extremes)] for usual in usual_counts])
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

    def limits(self) -> dict[str, list[float]]:
        """Return the limits of each channel by name, for programs that check windows elsewhere.

        They are the numbers of equal samples ``held``, ``flat`` and ``clipped``, and the range from ``low`` to ``high``
        if there is one.
        """
        named = {"held": self._held, "flat": self._flat, "clipped": self._clipped.ravel()}
        if self._range is not None:
            named |= {"low": self._range[0].ravel(), "high": self._range[1].ravel()}
        return {name: values.tolist() for name, values in named.items()}

    def reset(self) -> None:
        """Forget the known clipping limits."""
        self._clipping_limits = ClippingLimits(self.channels)

    def check(self, samples: FloatArray) -> QualityFlags:
        """Return the flags of every window of the next samples, (channels, samples)."""
        if samples.ndim != 2 or len(samples) != self.channels:
            raise DataError(f"samples of shape {samples.shape}; expected ({self.channels}, samples)")
        count = self.spec.count(samples.shape[1])
        codes = np.zeros((len(samples), count), dtype=np.int8)
        if not count:
            return QualityFlags(codes)
        used = samples[:, : (count - 1) * self.spec.step + self.spec.length]
        finite = np.isfinite(used)
        all_finite = finite.all()
        known = used if all_finite else np.where(finite, used, np.nan)
        top = window_extremes(used if all_finite else np.where(finite, used, -np.inf), self.spec, np.maximum)
        bottom = window_extremes(used if all_finite else np.where(finite, used, np.inf), self.spec, np.minimum)
        if self._range is not None:
            low, high = self._range
            codes[(bottom[0] < low) | (top[0] > high)] = WINDOW_REASONS.index(OUT_OF_RANGE)
        held = self._detect_runs(windows_touching_run, known, self._held)
        codes[held] = WINDOW_REASONS.index(DROP_OUT)
        clipped = top[1] + bottom[1] >= self._clipped
        codes[clipped | self._clipping_limits.update(top, bottom, clipped)] = WINDOW_REASONS.index(CLIPPED)
        if held.any():
            codes[self._detect_runs(windows_with_run, known, self._flat)] = WINDOW_REASONS.index(FLAT_LINE)
        if not all_finite:
            codes[windows_containing(np.isinf(used), self.spec)] = WINDOW_REASONS.index(INFINITE)
            codes[windows_containing(np.isnan(used), self.spec)] = WINDOW_REASONS.index(NOT_A_NUMBER)
        return QualityFlags(codes)

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next result depends on, as copies."""
        return self._clipping_limits.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state that :meth:`state_dict` returned."""
        self._clipping_limits.load_state_dict(state)

    def _detect_runs(self, detect: RunDetector, samples: FloatArray, runs: npt.NDArray[np.int_]) -> BoolArray:
        """Return the windows that a detector finds with the run length of their channel."""
        found = np.zeros((len(samples), self.spec.count(samples.shape[1])), dtype=np.bool_)
        for run in np.unique(runs):
            found[runs == run] = detect(samples[runs == run], self.spec, int(run))
        return found


def _limit(configured: int | None, usual: int) -> int:
    """Return the lowest number of equal samples to flag: half more than usual, and at least two more."""
    return configured if configured is not None else max(LOWEST_LIMIT, usual + 2, math.ceil(1.5 * usual))
