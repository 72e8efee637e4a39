"""Equal samples in windows: in a row, and at the largest and smallest value.

Noise makes every sample of a sound sensor different, but for the steps in which
it measures. So a few ties are usual, more of them for a coarse sensor, and many
mean that it holds a value or reaches the end of its range.
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
USUAL_SHARE = 0.999
"""Of the windows that are said to be usual: a broken stretch in a recording shall not become the measure."""


@dataclass(frozen=True)
class EqualSampleCounts:
    """How many equal samples usual windows of a channel have at most."""

    in_a_row: int
    at_extremes: int
    """Exactly at the largest or the smallest value of the window, both together."""


def usual_equal_samples(signals: Iterable[FloatArray], spec: WindowSpec) -> tuple[EqualSampleCounts, ...]:
    """Return what is usual in sound signals, (channels, samples) each, channel by channel."""
    apart = WindowSpec(spec.length, spec.length)
    runs, counts = [], []
    for signal in signals:
        counts.append(window_extremes(signal, apart, np.maximum)[1] + window_extremes(signal, apart, np.minimum)[1])
        runs.append(_longest_runs(signal, apart))
    return tuple(
        EqualSampleCounts(_usual(of_channel), _usual(at_extremes))
        for of_channel, at_extremes in zip(np.concatenate(runs, axis=1), np.concatenate(counts, axis=1), strict=True)
    )


def window_extremes(samples: FloatArray, spec: WindowSpec, of: np.ufunc) -> tuple[FloatArray, npt.NDArray[np.intp]]:
    """Return the largest or smallest value of each window and how many of its samples are exactly that."""
    count = spec.count(samples.shape[1])
    # A piece is the longest stretch that no window cuts through; it is looked at once for all windows that hold it.
    piece = math.gcd(spec.length, spec.step)
    used = samples[:, : (count - 1) * spec.step + spec.length]
    # One row for each place within a piece: numpy reduces long rows far quicker than short ones.
    places = np.ascontiguousarray(used.reshape(len(used), -1, piece).transpose(2, 0, 1))
    of_piece = of.reduce(places, axis=0)
    number = np.sum(places == of_piece, axis=0)
    pieces, stride = spec.length // piece, spec.step // piece
    values, numbers = (sliding_window_view(each, pieces, axis=1)[:, ::stride] for each in (of_piece, number))
    found = of.reduce(values, axis=2)
    return found, np.einsum("cwp,cwp->cw", values == found[..., None], numbers)


def windows_with_run(samples: FloatArray, spec: WindowSpec, run: int) -> BoolArray:
    """Return in which windows a value is held for at least ``run`` samples, (channels, windows)."""
    if run > spec.length:
        return np.zeros((len(samples), spec.count(samples.shape[1])), dtype=np.bool_)
    return windows_containing(_held(samples, run), spec, run)


def windows_touching_run(samples: FloatArray, spec: WindowSpec, run: int) -> BoolArray:
    """Return into which windows a value is held, by two samples or more, where it is held for at least ``run``."""
    nobody = np.zeros((len(samples), spec.count(samples.shape[1])), dtype=np.bool_)
    if run > spec.length or not (held := _held(samples, run)).any():
        return nobody
    # Every two neighbours of a run, however many runs of the least length they are in.
    before = _counted(np.pad(held, ((0, 0), (run - 2, run - 2))))
    return windows_containing(before[:, run - 1 :] > before[:, : before.shape[1] - run + 1], spec, 2)


def windows_containing(flags: BoolArray, spec: WindowSpec, width: int = 1) -> BoolArray:
    """Return which windows hold a whole flagged stretch of ``width`` samples; its flag stands at the first."""
    before = _counted(flags)
    begins = slice(0, before.shape[1] - spec.length + width - 1, spec.step)
    ends = slice(spec.length - width + 1, None, spec.step)
    return np.asarray(before[:, ends] > before[:, begins])


def _held(samples: FloatArray, run: int) -> BoolArray:
    """Return whether the next ``run`` samples are equal, at each that has so many."""
    changes = _counted(samples[:, 1:] != samples[:, :-1])
    return np.asarray(changes[:, run - 1 :] == changes[:, : changes.shape[1] - run + 1])


def _longest_runs(samples: FloatArray, spec: WindowSpec) -> npt.NDArray[np.intp]:
    """Return the longest run of equal samples in each window; long ones may be longer by up to a fourth."""
    longest = np.ones((len(samples), spec.count(samples.shape[1])), dtype=np.intp)
    run = 2
    while run <= spec.length and (held := windows_with_run(samples, spec, run)).any():
        longest[held] = run
        run += max(1, run // 4)
    return longest


def _usual(values: npt.NDArray[np.intp]) -> int:
    return int(np.quantile(values, USUAL_SHARE, method="higher"))


def _counted(flags: BoolArray) -> npt.NDArray[np.int32]:
    """Return how many flags stand before each place, the end included."""
    counted = np.zeros((len(flags), flags.shape[1] + 1), dtype=np.int32)
    np.cumsum(flags, axis=1, out=counted[:, 1:])
    return counted
