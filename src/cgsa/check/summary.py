"""Summary of a recording: everything that the checks look at, measured in one pass over its samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from cgsa.check.intervals import IntervalLevels, IntervalMeter
from cgsa.check.landmarks import LandmarkMeter, Landmarks
from cgsa.check.recordings import LabelledRecording, cut_blocks
from cgsa.check.spectrum import AverageSpectrum, SpectrumMeter
from cgsa.check.statistics import ChannelStatistics, StatisticsMeter
from cgsa.data.recording import FloatArray, Recording
from cgsa.errors import DataError

Measurement: TypeAlias = Literal["landmarks", "spectrum"]
"""What takes time to measure; statistics and levels are always there."""
ALL_MEASUREMENTS: frozenset[Measurement] = frozenset({"landmarks", "spectrum"})
STEADY = 0.05
"""A condition that moves by no more than this share of its mean is steady."""


@dataclass(frozen=True, eq=False)
class ChannelSummary:
    """What was measured of one channel."""

    statistics: ChannelStatistics
    levels: IntervalLevels
    spectrum: AverageSpectrum | None
    """None if it was not asked for."""
    landmarks: Landmarks | None


@dataclass(frozen=True, eq=False)
class RecordingSummary:
    """What was measured of a recording."""

    recording: LabelledRecording
    failure: str | None = None
    """Why the recording cannot be read."""
    sample_rate: float = 0.0
    channels: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    samples: int = 0
    conditions: Mapping[str, float] = field(default_factory=dict)
    """The set conditions, or the means of the recorded ones."""
    steady: bool = True
    """Whether no recorded condition moves."""
    notes: tuple[str, ...] = ()
    """What the reader found unusual."""
    measured: tuple[ChannelSummary, ...] = ()
    """One per channel."""

    @property
    def name(self) -> str:
        """Name of the recording."""
        return self.recording.name

    @property
    def label(self) -> str:
        """Its class; empty if it has none."""
        return self.recording.label or ""

    @property
    def seconds(self) -> float:
        """Duration."""
        return self.samples / self.sample_rate if self.sample_rate else 0.0

    @property
    def point(self) -> str:
        """Name of the operating point."""
        if self.recording.point is not None:
            return self.recording.point
        return ", ".join(f"{name} {value:.3g}" for name, value in sorted(self.conditions.items()))

    def time(self, sample: int) -> float:
        """Return the seconds from the start to a sample."""
        return sample / self.sample_rate

    def channel(self, name: str) -> ChannelSummary | None:
        """Return what was measured of a channel; None if the recording has no such channel."""
        return self.measured[self.channels.index(name)] if name in self.channels else None


class _ChannelMeters:
    def __init__(self, sample_rate: float, needs: frozenset[Measurement]) -> None:
        self.statistics, self.levels = StatisticsMeter(), IntervalMeter()
        self.spectrum = SpectrumMeter(sample_rate) if "spectrum" in needs else None
        self.landmarks = LandmarkMeter() if "landmarks" in needs else None

    def add(self, samples: FloatArray) -> None:
        self.statistics.add(samples)
        # The checks of spectra and levels must work beside missing values; these have a check of their own.
        finite = np.nan_to_num(samples, nan=0.0, posinf=0.0, neginf=0.0)
        for meter in (self.levels, self.spectrum, self.landmarks):
            if meter is not None:
                meter.add(finite)

    def result(self) -> ChannelSummary:
        return ChannelSummary(
            self.statistics.result(),
            self.levels.result(),
            None if self.spectrum is None else self.spectrum.result(),
            None if self.landmarks is None else self.landmarks.result(),
        )


class _ConditionMeter:
    """Mean and range of a recorded condition, in intervals short enough to show a change and long enough for noise."""

    def __init__(self) -> None:
        self.means: list[float] = []

    def add(self, trace: FloatArray) -> None:
        self.means += [float(part.mean(dtype=np.float64)) for part in np.array_split(trace, 8) if len(part)]

    @property
    def mean(self) -> float:
        return float(np.mean(self.means))

    @property
    def steady(self) -> bool:
        return max(self.means) - min(self.means) <= STEADY * max(map(abs, self.means))


def summarise_recording(
    recording: LabelledRecording, needs: frozenset[Measurement] = ALL_MEASUREMENTS
) -> RecordingSummary:
    """Read a recording once and measure it; a recording that cannot be read has a summary with the reason."""
    try:
        return _summarise_parts(recording, recording.parts(), needs)
    except DataError as error:
        return RecordingSummary(recording, failure=str(error))


def _summarise_parts(
    recording: LabelledRecording, parts: Iterable[Recording], needs: frozenset[Measurement]
) -> RecordingSummary:
    first: Recording | None = None
    samples = 0
    meters: list[_ChannelMeters] = []
    traces: dict[str, _ConditionMeter] = {}
    for part in parts:
        if first is None:
            first = part
            meters = [_ChannelMeters(part.sample_rate, needs) for _ in part.channels]
            traces = {name: _ConditionMeter() for name in part.conditions}
        for block in cut_blocks(part):
            for meter, row in zip(meters, block, strict=True):
                meter.add(row)
            samples += block.shape[1]
        for name, trace in part.conditions.items():
            traces[name].add(trace)
    if first is None or not samples:
        raise DataError(f"{recording.name}: holds no samples")
    known = {name: trace for name, trace in traces.items() if trace.means}
    return RecordingSummary(
        recording,
        sample_rate=first.sample_rate,
        channels=first.channels,
        units=first.units,
        samples=samples,
        conditions=recording.conditions or {name: trace.mean for name, trace in known.items()},
        steady=all(trace.steady for trace in known.values()),
        notes=first.notes,
        measured=tuple(meter.result() for meter in meters),
    )
