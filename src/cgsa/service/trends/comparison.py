"""The newest signal of a machine beside its healthy signal: what rose, by how much, and whose lines it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cgsa.data.recording import Recording
from cgsa.errors import CgsaError
from cgsa.explain.evidence import SpectrumComparison
from cgsa.explain.explanation import ExplainedSpectra, Explanation, explain_interval
from cgsa.explain.kinematics import Kinematics, load_kinematics
from cgsa.explain.line_families import LineFamily, Speeds, line_families
from cgsa.explain.spectra import DoubleArray
from cgsa.live.plant import ExplainConfig
from cgsa.live.store import HealthyPiece
from cgsa.report.alarm_explanation import NO_KINEMATICS, healthy_recordings
from cgsa.service.trends.healthy_signal import as_recordings

MAX_POINTS = 800
"""Points of a curve; a screen has few more columns."""
NO_HEALTHY_SIGNAL = (
    "There is no healthy signal yet: it is taken while the machine is reported healthy; or name recordings of the "
    "healthy machine as healthy in [machines.explain]"
)


@dataclass(frozen=True, eq=False)
class ComparedSpectrum:
    """The spectrum of one channel, and the highest of the healthy signal."""

    frequency: DoubleArray
    """In Hz."""
    now: DoubleArray
    """Amplitudes of sines, in the unit of the signal; of an envelope, relative to its mean."""
    healthy: DoubleArray | None
    """None without a healthy signal."""


@dataclass(frozen=True, eq=False)
class HealthyComparison:
    """The newest signal of a machine compared with its healthy signal."""

    time: float
    """Of the first sample, in seconds of the stream."""
    seconds: float
    channels: tuple[str, ...]
    units: tuple[str, ...]
    compared_with: str
    """What it is compared with, as text."""
    explanation: Explanation | None
    """None if there is none; the notes say why."""
    spectra: tuple[ComparedSpectrum, ...]
    """One per channel."""
    envelopes: tuple[ComparedSpectrum, ...]
    """One per channel."""
    families: Mapping[str, tuple[tuple[float, str], ...]]
    """Lines in Hz and their names, by part of the machine; those of the envelope have a prefix."""
    notes: tuple[str, ...]


ENVELOPE = "envelope: "
"""Prefix of the families whose lines are in the envelope."""


def compare_with_healthy(
    time: float, recording: Recording, pieces: tuple[HealthyPiece, ...], config: ExplainConfig
) -> HealthyComparison:
    """Compare the newest signal with the healthy recordings of the configuration, or else with the machine's own."""
    units = dict(zip(recording.channels, recording.units, strict=True))
    notes: list[str] = []
    explanation: Explanation | None = None
    spectra: ExplainedSpectra | None = None
    families: dict[str, tuple[tuple[float, str], ...]] = {}
    compared_with = "nothing"
    try:
        machine = None if config.kinematics is None else load_kinematics(config.kinematics)
        healthy, compared_with = _healthy_recordings(recording, pieces, config, units)
        explanation, spectra = explain_interval(recording, healthy, machine, speed=config.speed)
        families = _lines(machine, explanation)
        notes += explanation.notes if healthy else (NO_HEALTHY_SIGNAL, *explanation.notes[1:])
        notes += [] if machine else [NO_KINEMATICS]
    except CgsaError as error:
        notes.append(str(error))
    return HealthyComparison(
        time,
        recording.seconds,
        recording.channels,
        recording.units,
        compared_with,
        explanation,
        () if spectra is None else _curves(spectra.plain),
        () if spectra is None else _curves(spectra.envelope),
        families,
        tuple(notes),
    )


def _healthy_recordings(
    recording: Recording, pieces: tuple[HealthyPiece, ...], config: ExplainConfig, units: Mapping[str, str]
) -> tuple[list[Recording], str]:
    """Return the healthy recordings that fit, and what they are."""
    if config.healthy:
        found = [one.select(recording.channels) for path in config.healthy for one in healthy_recordings(path)]
        return found, f"{len(found)} healthy recordings of the configuration"
    own = [one for one in pieces if (one.channels, one.sample_rate) == (recording.channels, recording.sample_rate)]
    if not own:
        return [], "nothing"
    over = f", taken over {(own[-1].time - own[0].time) / 60:.0f} min" if len(own) > 1 else ""
    text = f"{len(own)} piece{'s' * (len(own) > 1)} of this machine while it was healthy{over}"
    return as_recordings(tuple(own), units), text


def _curves(comparison: SpectrumComparison) -> tuple[ComparedSpectrum, ...]:
    """Return the curves of every channel; neighbours are merged, and the largest is kept."""
    now = comparison.current.power
    healthy = np.max([one.power for one in comparison.healthy], axis=0) if comparison.healthy else None
    frequency = comparison.current.frequencies
    edges = np.arange(0, now.shape[1], -(-now.shape[1] // MAX_POINTS))
    found = []
    for channel in range(len(now)):
        usual = None if healthy is None else np.sqrt(np.maximum.reduceat(healthy[channel], edges))
        found.append(ComparedSpectrum(frequency[edges], np.sqrt(np.maximum.reduceat(now[channel], edges)), usual))
    return tuple(found)


def _lines(machine: Kinematics | None, explanation: Explanation) -> dict[str, tuple[tuple[float, str], ...]]:
    """Return the lines of all parts of a machine at its present speed; those that stand out come first."""
    if machine is None or explanation.speed is None:
        return {}
    speeds = Speeds(explanation.speed / 60, explanation.supply or 0.0)
    order = {one.name: place for place, one in enumerate(explanation.families)}
    families = sorted(line_families(machine), key=lambda one: order.get(one.name, len(order)))
    return {_family_name(one): _family_lines(one, speeds) for one in families}


def _family_name(family: LineFamily) -> str:
    return f"{ENVELOPE if family.domain == 'envelope' else ''}{family.name}"


def _family_lines(family: LineFamily, speeds: Speeds) -> tuple[tuple[float, str], ...]:
    found: Sequence[tuple[float, str]] = [(line.frequency(speeds), line.name) for line in family.lines]
    return tuple(found)
