"""Rejects windows whose samples show a sensor fault: they are neither diagnosed nor used for a reference."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .package import Doubles, EdgePackage, Flags, Singles
from .windowing import window_views


class SignalQuality:
    """Finds the windows with a sensor fault, and remembers at which values the sensor clips."""

    def __init__(self, package: EdgePackage) -> None:
        found = package.description["quality"]
        self.reasons: list[str] = found["reasons"]
        """Meaning of the codes; if several apply, the last one counts."""
        self._limits = {name: np.array(values) for name, values in found["limits"].items()}
        self._certain: int = found["certain_samples"]
        self._length, self._step = package.length, package.step
        # Upper limits and negated lower limits, so that both are maxima; NaN if unknown.
        self._clipping = np.full((2, len(package.channels)), np.nan)

    def check(self, samples: Singles) -> npt.NDArray[np.int8]:
        """Return the code of each window of samples (channels, samples), per channel; 0 is good."""
        finite = np.isfinite(samples)
        top = self._extreme(np.where(finite, samples, -np.inf))
        bottom = self._extreme(np.where(finite, -samples, -np.inf))
        out_of_range, held, clipped, flat, infinite, missing = range(1, len(self.reasons))
        codes = np.zeros(top[0].shape, dtype=np.int8)
        if "low" in self._limits:
            low, high = (self._limits[name][:, None] for name in ("low", "high"))
            codes[(-bottom[0] < low) | (top[0] > high)] = out_of_range
        equal = np.where(finite, samples, np.nan)
        equal = np.concatenate([equal[:, 1:] == equal[:, :-1], np.zeros((len(samples), 1), dtype=np.bool_)], axis=1)
        runs = np.stack([self._touching_run(*pair) for pair in zip(equal, self._limits["held"], strict=True)])
        codes[runs] = held
        alone = top[1] + bottom[1] >= self._limits["clipped"][:, None]
        codes[alone | self._at_limit(top, bottom, alone)] = clipped
        flat_lines = np.stack([self._with_run(*pair) for pair in zip(equal, self._limits["flat"], strict=True)])
        if runs.any():
            codes[flat_lines] = flat
        codes[window_views(np.isinf(samples), self._length, self._step).any(axis=2)] = infinite
        codes[window_views(np.isnan(samples), self._length, self._step).any(axis=2)] = missing
        return codes

    def _extreme(self, samples: npt.NDArray[np.floating]) -> tuple[Doubles, Doubles]:
        """Return the largest value of each window, and how many of its samples have it."""
        windows = window_views(samples, self._length, self._step)
        largest = windows.max(axis=2)
        return largest, (windows == largest[..., None]).sum(axis=2)

    def _touching_run(self, equal: Flags, run: int) -> Flags:
        """Return which windows contain two or more samples of a run of at least ``run`` equal samples."""
        if run > self._length:
            return np.zeros(self._count(len(equal)), dtype=np.bool_)
        edges = np.flatnonzero(np.diff(np.concatenate([[False], equal, [False]]).astype(np.int8)))
        long = np.zeros(len(equal), dtype=np.bool_)
        for begin, end in zip(edges[::2], edges[1::2], strict=True):
            long[begin:end] = end - begin + 1 >= run
        return self._any_within(long, self._length - 1)

    def _with_run(self, equal: Flags, run: int) -> Flags:
        """Return which windows contain at least ``run`` equal samples in a row."""
        if run > self._length:
            return np.zeros(self._count(len(equal)), dtype=np.bool_)
        before = np.concatenate([[0], np.cumsum(equal)])
        begins = np.zeros(len(equal), dtype=np.bool_)
        begins[: len(equal) - run + 2] = before[run - 1 :] - before[: len(before) - run + 1] == run - 1
        return self._any_within(begins, self._length - run + 1)

    def _any_within(self, flags: Flags, reach: int) -> Flags:
        """Return which windows have a flag among their first ``reach`` samples."""
        before = np.concatenate([[0], np.cumsum(flags)])
        first = self._step * np.arange(self._count(len(flags)))
        return np.asarray(before[first + reach] > before[first])

    def _at_limit(self, top: tuple[Doubles, Doubles], bottom: tuple[Doubles, Doubles], alone: Flags) -> Flags:
        """Learn at which values the sensor clips, and return which windows reach one of them."""
        reached = np.zeros(alone.shape, dtype=np.bool_)
        for side, (values, count) in enumerate((top, bottom)):
            largest, known = values.max(axis=1), self._clipping[side]
            at_largest = values == largest[:, None]
            is_limit = (alone & at_largest & (count >= self._certain)).any(axis=1) | (known == largest)
            is_limit &= np.isfinite(largest)
            self._clipping[side] = np.where(is_limit, largest, np.where(largest > known, np.nan, known))
            reached |= at_largest & is_limit[:, None]
        return reached

    def _count(self, samples: int) -> int:
        return (samples - self._length) // self._step + 1
