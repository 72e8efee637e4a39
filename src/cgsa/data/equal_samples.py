"""Count equal samples in windows: in a row, and at the largest and smallest value.

Noise makes the samples of a sound sensor differ, up to its resolution. A few
equal samples are usual, and more of them for a coarse sensor. Many mean that the
sensor repeats a value or reaches the end of its range.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from cgsa.data.recording import FloatArray
from cgsa.data.windows import WindowSpec

BoolArray = npt.NDArray[np.bool_]
Extremes = tuple[FloatArray, npt.NDArray[np.intp]]
"""The largest or smallest value of each window, and the number of its samples at exactly that value."""
USUAL_SHARE = 0.999
"""Share of windows that define what is usual, so that a defect in a recording does not."""


@dataclass(frozen=True)
class EqualSampleCounts:
    """Largest numbers of equal samples in usual windows of a channel."""

    in_a_row: int
    at_extremes: int
    """At exactly the largest or the smallest value of the window, counted together."""


def usual_equal_samples(signals: Iterable[FloatArray], spec: WindowSpec) -> tuple[EqualSampleCounts, ...]:
    """Return the usual counts of each channel in sound signals, (channels, samples) each."""
    disjoint = WindowSpec(spec.length, spec.length)
    runs, counts = [], []
    for signal in signals:
        top, bottom = (window_extremes(signal, disjoint, of)[1] for of in (np.maximum, np.minimum))
        counts.append(top + bottom)
        runs.append(_longest_runs(signal, disjoint))
    return tuple(
        EqualSampleCounts(_usual(of_channel), _usual(at_extremes))
        for of_channel, at_extremes in zip(np.concatenate(runs, axis=1), np.concatenate(counts, axis=1), strict=True)
    )


def window_extremes(samples: FloatArray, spec: WindowSpec, of: np.ufunc) -> Extremes:
    """Return the largest or smallest value of each window and the number of its samples at exactly that value."""
    count = spec.count(samples.shape[1])
    # A chunk is the longest interval that no window boundary divides; it is reduced once for all windows around it.
    chunk = math.gcd(spec.length, spec.step)
    used = samples[:, : (count - 1) * spec.step + spec.length]
    # One row per position within a chunk: numpy reduces long rows far faster than short ones.
    rows = np.ascontiguousarray(used.reshape(len(used), -1, chunk).transpose(2, 0, 1))
    of_chunk = of.reduce(rows, axis=0)
    number = np.sum(rows == of_chunk, axis=0)
    chunks, stride = spec.length // chunk, spec.step // chunk
    values, numbers = (sliding_window_view(each, chunks, axis=1)[:, ::stride] for each in (of_chunk, number))
    found = of.reduce(values, axis=2)
    return found, np.einsum("cwp,cwp->cw", values == found[..., None], numbers)


def windows_with_run(samples: FloatArray, spec: WindowSpec, run: int) -> BoolArray:
    """Return which windows contain at least ``run`` equal samples in a row, (channels, windows)."""
    if run > spec.length:
        return np.zeros((len(samples), spec.count(samples.shape[1])), dtype=np.bool_)
    return windows_containing(_run_starts(samples, run), spec, run)


def windows_touching_run(samples: FloatArray, spec: WindowSpec, run: int) -> BoolArray:
    """Return which windows contain two or more samples of a run of at least ``run`` equal samples."""
    if run > spec.length or not (starts := _run_starts(samples, run)).any():
        return np.zeros((len(samples), spec.count(samples.shape[1])), dtype=np.bool_)
    # Flags every pair of neighbours within a run, whose length may exceed the minimum.
    before = _cumulative(np.pad(starts, ((0, 0), (run - 2, run - 2))))
    return windows_containing(before[:, run - 1 :] > before[:, : before.shape[1] - run + 1], spec, 2)


def windows_containing(flags: BoolArray, spec: WindowSpec, width: int = 1) -> BoolArray:
    """Return which windows contain a flagged interval of ``width`` samples, which is flagged at its first sample."""
    before = _cumulative(flags)
    begins = slice(0, before.shape[1] - spec.length + width - 1, spec.step)
    ends = slice(spec.length - width + 1, None, spec.step)
    return np.asarray(before[:, ends] > before[:, begins])


def _run_starts(samples: FloatArray, run: int) -> BoolArray:
    """Return at each sample, as far as the signal goes, whether it and those after it make ``run`` equal samples."""
    changes = _cumulative(samples[:, 1:] != samples[:, :-1])
    return np.asarray(changes[:, run - 1 :] == changes[:, : changes.shape[1] - run + 1])


def _longest_runs(samples: FloatArray, spec: WindowSpec) -> npt.NDArray[np.intp]:
    """Return the longest run of equal samples in each window; long runs are underestimated by up to a fourth."""
    longest = np.ones((len(samples), spec.count(samples.shape[1])), dtype=np.intp)
    run = 2
    while run <= spec.length and (found := windows_with_run(samples, spec, run)).any():
        longest[found] = run
        run += max(1, run // 4)
    return longest


def _usual(values: npt.NDArray[np.intp]) -> int:
    return int(np.quantile(values, USUAL_SHARE, method="higher"))


def _cumulative(flags: BoolArray) -> npt.NDArray[np.int32]:
    """Return the number of flags before each sample, and before the end."""
    counts = np.zeros((len(flags), flags.shape[1] + 1), dtype=np.int32)
    np.cumsum(flags, axis=1, out=counts[:, 1:])
    return counts
