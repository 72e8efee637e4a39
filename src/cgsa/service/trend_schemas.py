"""What goes over the API about trends and the comparison with the healthy machine."""

from __future__ import annotations

from cgsa.service.schemas import Answer


class ChangedBand(Answer):
    """A third octave whose level changed."""

    channel: str
    low: float
    high: float
    """In Hz."""
    decibels: float
    """Change of its level; positive if it rose."""
    beyond: float
    """How much of that is beyond the scatter of the healthy machine."""


class ChangedPeakInfo(Answer):
    """A line that stands out of a spectrum."""

    channel: str
    envelope: bool
    """Whether it is in the envelope spectrum."""
    frequency: float
    decibels: float
    """By how much it is above the healthy signal."""
    name: str | None
    """What of the machine has such a line; null if nothing does."""


class SpectrumInfo(Answer):
    """The spectrum of one channel beside that of the healthy machine."""

    channel: str
    frequency: list[float]
    now: list[float]
    """Amplitudes, in the unit of the channel; of an envelope, relative to its mean."""
    healthy: list[float] | None
    """The highest of the healthy signal; null without one."""


class ComparisonInfo(Answer):
    """The newest signal of a machine compared with its healthy signal."""

    machine: str
    time: float
    """Of the first sample, in seconds of the stream."""
    seconds: float
    compared_with: str
    """What it is compared with."""
    sentences: list[str]
    """What stands out, most telling first."""
    peaks: list[ChangedPeakInfo]
    bands: list[ChangedBand]
    """Largest change first; empty without a healthy signal."""
    spectra: list[SpectrumInfo]
    envelopes: list[SpectrumInfo]
    lines: dict[str, list[tuple[float, str]]]
    """Lines in Hz with their names, by part of the machine at its present speed."""
    notes: list[str]


class ChannelTrend(Answer):
    """Trends of one channel; null where nothing was measured."""

    channel: str
    rms: list[float | None]
    kurtosis: list[float | None]
    """3 for Gaussian noise; impacts raise it."""
    bands: dict[str, list[float | None]]
    """RMS by frequencies."""


class TrendInfo(Answer):
    """Trends of a machine over a period."""

    machine: str
    step: int
    """Seconds per value: 60 up to a day, 3600 beyond."""
    times: list[float]
    """Begin of every step, in seconds of the stream."""
    health: list[float | None]
    """Health score from 0 to 100: 100 times the mean probability of the healthy class over all batches of a step; a
    batch whose state is unknown counts 0, and batches without data or at standstill do not count."""
    channels: list[ChannelTrend]
