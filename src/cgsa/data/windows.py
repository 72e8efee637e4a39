"""Windows over raw samples: indices, not copies.

Neighbouring windows share 98 % of their samples, so a stored set of windows
would be 64 times the size of the signal. This module stores the raw samples once
and gathers each batch of windows from them when it is needed, on the device of
the model.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgsa.data.recording import Recording
from cgsa.errors import ConfigError, DataError


@dataclass(frozen=True)
class WindowSpec:
    """How a signal is cut into windows."""

    length: int = 1024
    """Samples per window (paper, section III-A3)."""
    step: int = 16
    """Samples from one window to the next (paper, section III-A3)."""

    def __post_init__(self) -> None:
        if self.length < 2 or self.step < 1:
            raise ConfigError(f"window of {self.length} samples at step {self.step}; expected at least 2 and 1")

    def count(self, samples: int) -> int:
        """Return how many windows fit into ``samples``; 7,937 fit into 10 s at 12.8 kHz.

        >>> WindowSpec().count(128_000)
        7937
        """
        return max(0, (samples - self.length) // self.step + 1)


@dataclass(frozen=True, eq=False)
class Segment:
    """An interval of a recording whose windows share a class and a stage of the scenario."""

    recording: Recording
    label: int
    """Index of the class."""
    stage: int
    """Index of the offline segment (T1, T2, ...) or online stage (C1, C2, ...)."""
    machine: int = 0
    """Which machine was recorded; a healthy reference comes from the same one."""

    def centred(self) -> Segment:
        """Return the segment without the mean that its recording states."""
        return replace(self, recording=self.recording.centred())


class Windows:
    """All windows of some segments, with the class, stage, machine and conditions of each.

    All recordings have equal channels and rate, and no window extends over two segments. The mean over each window of
    the named ``conditions`` is kept. ``device`` stores the raw samples and gathers batches.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        spec: WindowSpec,
        *,
        conditions: Sequence[str] = (),
        device: torch.device | str = "cpu",
    ) -> None:
        _check_segments(segments, spec)
        first = segments[0].recording
        self.spec, self.channels, self.units, self.sample_rate = spec, first.channels, first.units, first.sample_rate
        self.device = torch.device(device)
        self.intervals = [segment.recording.interval for segment in segments]
        self._means = [segment.recording.mean for segment in segments]
        raw = [segment.recording.signal for segment in segments]
        # A single segment is used in place; several are concatenated.
        joined = raw[0] if len(raw) == 1 else np.concatenate(raw, axis=1)
        joined = np.ascontiguousarray(joined, dtype=np.float32)
        self._raw = torch.from_numpy(joined if joined.flags.writeable else joined.copy()).to(self.device)
        counts = [spec.count(segment.recording.samples) for segment in segments]
        borders = np.cumsum([0] + [segment.recording.samples for segment in segments])
        starts = [begin + spec.step * np.arange(count) for begin, count in zip(borders, counts, strict=False)]
        self.starts = torch.from_numpy(np.concatenate(starts)).to(self.device)
        self.first_windows: list[int] | None = np.cumsum([0, *counts]).tolist()
        """Index of every segment's first window, then the number of windows; None for a subset of windows."""
        self._first_samples: list[int] = borders.tolist()
        self.labels = self._per_window([segment.label for segment in segments], counts)
        self.stages = self._per_window([segment.stage for segment in segments], counts)
        self.machines = self._per_window([segment.machine for segment in segments], counts)
        self.segments = self._per_window(list(range(len(segments))), counts)
        self.conditions: Tensor | None = None
        """(windows, conditions)"""
        if conditions:
            means = [
                np.concatenate([window_means(_trace(segment.recording, name), spec) for segment in segments])
                for name in conditions
            ]
            self.conditions = torch.from_numpy(np.stack(means, axis=1)).to(self.device)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def samples(self) -> Tensor:
        """The raw samples of all windows, (channels, samples)."""
        return self._raw

    @property
    def centred_samples(self) -> Tensor:
        """The same without the means that the recordings state."""
        if all(mean is None for mean in self._means):
            return self._raw
        parts = [
            signal if mean is None else (signal - torch.from_numpy(mean).to(self.device)[:, None]).to(self._raw)
            for signal, mean in zip(self.signals(), self._means, strict=True)
        ]
        return torch.cat(parts, dim=1)

    def signals(self) -> Iterator[Tensor]:
        """Iterate over the raw samples of every segment, (channels, samples) each."""
        for begin, end in pairwise(self._first_samples):
            yield self._raw[:, begin:end]

    def gather(self, index: Tensor | slice) -> Tensor:
        """Return the windows at ``index`` as (windows, channels, length).

        Successive windows of one segment are a view of the raw samples and must not be written to.
        """
        channels, total = self._raw.shape
        length, step = self.spec.length, self.spec.step
        if isinstance(index, slice) and (successive := self._successive(index)) is not None:
            begin, count = successive
            return self._raw.as_strided((count, channels, length), (step, total, 1), begin)
        every = self._raw.as_strided((total - length + 1, channels, length), (1, total, 1))
        return every[self.starts[index]]

    def _successive(self, where: slice) -> tuple[int, int] | None:
        """Return first sample and number of successive windows of one segment; None for other slices."""
        first, last, step = where.indices(len(self))
        if step != 1 or last <= first or self.first_windows is None:
            return None
        segment = bisect_right(self.first_windows, first) - 1
        if last > self.first_windows[segment + 1]:
            return None
        return self._first_samples[segment] + self.spec.step * (first - self.first_windows[segment]), last - first

    def subset(self, index: Tensor) -> Windows:
        """Return some of the windows; they share the raw samples."""
        subset = copy(self)
        for name in ("starts", "labels", "stages", "machines", "segments"):
            setattr(subset, name, getattr(self, name)[index])
        subset.first_windows = None
        subset.conditions = None if self.conditions is None else self.conditions[index]
        return subset

    def batches(self, size: int) -> Iterator[tuple[slice, Tensor]]:
        """Iterate over all windows in order, ``size`` at a time; the last batch may be smaller."""
        for begin in range(0, len(self), size):
            where = slice(begin, min(begin + size, len(self)))
            yield where, self.gather(where)

    def _per_window(self, values: list[int], counts: list[int]) -> Tensor:
        return torch.from_numpy(np.repeat(np.asarray(values, dtype=np.int64), counts)).to(self.device)


def overlapping_windows(samples: Tensor, length: int, step: int) -> Tensor:
    """Return all windows of samples (channels, samples) as a view, (windows, channels, length)."""
    return samples.unfold(1, length, step).transpose(0, 1)


def underlying_samples(windows: Tensor) -> tuple[Tensor, int] | None:
    """Return the samples that windows are a view of, and their step; None if the windows share no memory."""
    count, channels, length = windows.shape
    step, stride, dense = windows.stride()
    samples = (count - 1) * step + length
    if count < 2 or dense != 1 or not 0 < step < length or (channels > 1 and stride < samples):
        return None
    return windows.as_strided((channels, samples), (stride, 1)), step


def to_device(windows: Tensor, device: torch.device) -> Tensor:
    """Return windows in single precision on a device; windows that share samples are transferred as samples."""
    if windows.device == device:
        return windows.to(torch.float32)
    underlying = underlying_samples(windows)
    if underlying is None:
        return windows.to(device, torch.float32)
    samples, step = underlying
    # From pinned memory the copy is asynchronous.
    pinned = torch.empty(samples.shape, pin_memory=device.type == "cuda").copy_(samples)
    return overlapping_windows(pinned.to(device, non_blocking=True), windows.shape[2], step)


def window_means(trace: npt.NDArray[np.float32], spec: WindowSpec) -> npt.NDArray[np.float32]:
    """Return the mean of ``trace`` over each window, from one cumulative sum."""
    total = np.concatenate([[0.0], np.cumsum(trace, dtype=np.float64)])
    begin = spec.step * np.arange(spec.count(len(trace)))
    return np.asarray((total[begin + spec.length] - total[begin]) / spec.length, dtype=np.float32)


def _trace(recording: Recording, condition: str) -> npt.NDArray[np.float32]:
    if condition not in recording.conditions:
        known = ", ".join(recording.conditions) or "none"
        raise DataError(f"{recording.source}: no condition {condition!r}; it has {known}")
    return recording.conditions[condition]


def _check_segments(segments: Sequence[Segment], spec: WindowSpec) -> None:
    """Require equal rates and channels, and at least one window per segment."""
    if not segments:
        raise DataError("no segment to cut windows from; expected at least one")
    recordings = [segment.recording for segment in segments]
    first = recordings[0]
    for recording in recordings:
        if recording.sample_rate != first.sample_rate:
            raise DataError(
                f"mixed rates: {recording.source} has {recording.sample_rate:g} Hz, "
                f"{first.source} has {first.sample_rate:g} Hz; resample one of them"
            )
        if recording.channels != first.channels:
            raise DataError(
                f"mixed channels: {recording.source} has {', '.join(recording.channels)}; "
                f"{first.source} has {', '.join(first.channels)}"
            )
    for recording in recordings:
        if recording.samples < spec.length:
            raise DataError(
                f"{recording.source}: {recording.samples} samples from {recording.offset} on are too short "
                f"for one window of {spec.length}"
            )
