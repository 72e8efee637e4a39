"""Cuts a signal into batches of windows; they depend on the samples alone, not on the blocks in which they come."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from .package import Doubles, EdgePackage, Singles


@dataclass(frozen=True)
class SignalBatch:
    """The samples of successive windows, (channels, samples), and the time of the first in seconds."""

    samples: Singles
    begin: float


class BatchCutter:
    """Buffers samples until a batch is complete."""

    def __init__(self, package: EdgePackage) -> None:
        self._length, self._step, self._rate = package.length, package.step, package.sample_rate
        self._size = int(package.description["batch_size"])
        self._buffer = np.empty((len(package.channels), 0), dtype=np.float32)
        self._start, self._dropped, self._skip = 0.0, 0, 0

    def add(self, samples: Singles) -> list[SignalBatch]:
        """Append samples, (channels, samples); return the batches that they complete."""
        self._buffer = np.concatenate([self._buffer, samples], axis=1)
        self._drop()
        batches = []
        while self._windows >= self._size:
            batches.append(self._next(self._size))
        return batches

    def end(self) -> list[SignalBatch]:
        """Return the windows that are left of a recording; no later window contains any of its samples."""
        last = [self._next(self._windows)] if self._windows else []
        self._start += (self._dropped + self._buffer.shape[1]) / self._rate
        self._buffer, self._dropped, self._skip = self._buffer[:, :0], 0, 0
        return last

    @property
    def _windows(self) -> int:
        return max(0, (self._buffer.shape[1] - self._length) // self._step + 1)

    def _next(self, windows: int) -> SignalBatch:
        samples = self._buffer[:, : (windows - 1) * self._step + self._length].copy()
        begin = self._start + self._dropped / self._rate
        self._skip = windows * self._step
        self._drop()
        return SignalBatch(samples, begin)

    def _drop(self) -> None:
        dropped = min(self._skip, self._buffer.shape[1])
        self._buffer = self._buffer[:, dropped:]
        self._dropped, self._skip = self._dropped + dropped, self._skip - dropped


def window_views(samples: Singles, length: int, step: int) -> Singles:
    """Return the windows of samples as a view, (channels, windows, length)."""
    return sliding_window_view(samples, length, axis=1)[:, ::step]


def deviations_by_window(samples: Singles, length: int, step: int) -> Doubles:
    """Return the standard deviation of each channel in each window, (channels, windows); NaN if a sample is not finite.

    Windows that overlap share their sums: those of the pieces of which all windows consist.
    """
    values = np.where(np.isfinite(samples), samples, np.nan).astype(np.float64)
    piece = gcd(length, step)
    pieces = values[:, : values.shape[1] // piece * piece].reshape(len(values), -1, piece)
    means = pieces.mean(axis=2)
    squares = np.square(pieces - means[:, :, None]).sum(axis=2)
    means, squares = (
        sliding_window_view(part, length // piece, axis=1)[:, :: step // piece] for part in (means, squares)
    )
    between = piece * np.square(means - means.mean(axis=2, keepdims=True)).sum(axis=2)
    return np.asarray(np.sqrt((squares.sum(axis=2) + between) / length))
