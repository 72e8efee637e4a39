"""What an interval of a recording has that the healthy machine has not, named by the parts of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cgsa.data.recording import Recording
from cgsa.errors import DataError
from cgsa.explain.bands import BandChange, band_changes
from cgsa.explain.envelope import EnvelopeMethod, envelope_spectrum
from cgsa.explain.evidence import line_evidence
from cgsa.explain.kinematics import Kinematics
from cgsa.explain.line_families import LineFamily, line_families
from cgsa.explain.matching import FamilyMatch, match_family
from cgsa.explain.operation import condition_text, current_channels, nearest_healthy, speed_trace, supply_frequency
from cgsa.explain.peaks import ChangedPeak, NamedFrequency, changed_peaks, chance_of_a_name
from cgsa.explain.spectra import (
    LONGEST_ENVELOPE_FRAME,
    LONGEST_FRAME,
    AveragedSpectrum,
    DoubleArray,
    at_speed,
    averaged_spectrum,
    frame_samples,
    is_steady,
)

SHOWN_LINES = 4
MOST_RESCALING = 0.05
"""Healthy recordings at another speed are compared line by line up to this relative difference."""


@dataclass(frozen=True)
class ExplainedFamily:
    """A family of lines, and how clearly it stands out."""

    part: str
    name: str
    meaning: str
    domain: str
    strength: float
    """Mean evidence of its lines above that at random speeds, in standard deviations of the noise."""
    chance: float
    """Share of random speeds that do as well."""
    speaks: bool
    """Whether that is more than chance."""
    channel: str
    """In which it is clearest."""
    lines: tuple[NamedFrequency, ...]
    """Its clearest lines there."""

    @property
    def sentence(self) -> str:
        """Such as ``gearbox_y: mesh of second stage 412.3 Hz +14 dB, ...: like wear of ...``."""
        where = f"envelope of {self.channel}" if self.domain == "envelope" else self.channel
        named = ", ".join(f"{one.name} ({one.frequency:.4g} Hz) {one.decibels:+.0f} dB" for one in self.lines)
        return f"{where}: {named or self.name}: like {self.meaning}"


@dataclass(frozen=True)
class Explanation:
    """What changed in an interval of a recording against the healthy machine."""

    source: str
    begin: float
    end: float
    """In seconds of the recording."""
    condition: str
    healthy: tuple[str, ...]
    """Healthy recordings that it was compared with; empty if there were none."""
    speed: float | None
    """Mean speed of the first shaft in rpm; None if unknown."""
    supply: float | None
    """Supply frequency of the motor in Hz; None if there is none or it is unknown."""
    families: tuple[ExplainedFamily, ...]
    """Most telling first; empty without kinematics or speed."""
    peaks: tuple[ChangedPeak, ...]
    bands: tuple[BandChange, ...]
    name_by_chance: float | None
    """Share of random frequencies that would get a name; None without named lines."""
    notes: tuple[str, ...] = ()

    @property
    def sentences(self) -> list[str]:
        """What to read first."""
        found = [one.sentence for one in self.families if one.speaks]
        if self.families and not found:
            found = ["no family of lines of this machine stands out more than at random speeds"]
        loud = [one for one in self.bands if one.beyond > 0][:3]
        found += [
            f"{one.channel}: {one.low:.0f} to {one.high:.0f} Hz {one.decibels:+.1f} dB, {one.beyond:.1f} dB beyond the "
            "healthy scatter"
            for one in loud
        ]
        return found


@dataclass(frozen=True, eq=False)
class ExplainedSpectra:
    """The spectra behind an explanation, for pictures."""

    channels: tuple[str, ...]
    units: tuple[str, ...]
    current: AveragedSpectrum
    healthy: tuple[AveragedSpectrum, ...]
    envelope: AveragedSpectrum
    healthy_envelope: tuple[AveragedSpectrum, ...]
    signal: DoubleArray
    rate: float


def explain_interval(
    current: Recording,
    healthy: Sequence[Recording] = (),
    machine: Kinematics | None = None,
    *,
    speed: float | None = None,
    envelope: EnvelopeMethod = "prewhitened",
) -> tuple[Explanation, ExplainedSpectra]:
    """Compare an interval with the healthy machine at the nearest condition.

    Parameters
    ----------
    current
        The interval, with the channels to explain.
    healthy
        Healthy recordings with the same channels; those at the nearest condition are used.
    machine
        What turns in the machine; without it, changed lines have no names.
    speed
        Of the first shaft in rpm; by default the condition of the recording that is a speed.
    envelope
        Which envelope.
    """
    for one in healthy:
        if one.channels != current.channels or one.sample_rate != current.sample_rate:
            raise DataError(f"{one.source}: other channels or another sample rate than {current.source}")
    notes: list[str] = []
    near = nearest_healthy(current, healthy)
    spectra, rpm = _spectra(current, near, speed, envelope, notes)
    if not near:
        notes.append("no healthy recording: lines are compared with their surroundings only")
    spectrum_evidence = line_evidence(spectra.current, spectra.healthy)
    envelope_evidence = line_evidence(spectra.envelope, spectra.healthy_envelope, relative=True)
    supply = None
    families: list[ExplainedFamily] = []
    named: list[tuple[LineFamily, float]] = []
    if machine is not None and rpm is None:
        notes.append("the speed is unknown, so that lines have no names; give it")
    if machine is not None and rpm is not None:
        rotor = 0.0 if machine.motor is None else rpm / 60 * machine.ratios[machine.motor.shaft]
        supply = supply_frequency(machine.motor, rotor, spectra.current, current.channels)
        matches = _ranked(
            _matches(machine, current, spectra, spectrum_evidence, envelope_evidence, (rpm / 60, supply))
        )
        families = [_explained(one, spectra, (rpm / 60, supply), (spectrum_evidence, envelope_evidence)) for one in matches]
        named = [(one.family, one.slip) for one in matches]
        supply = None if machine.motor is None else supply
    speeds = None if rpm is None else (rpm / 60, supply or 0.0)
    peaks = changed_peaks(spectra.current, spectra.healthy, spectrum_evidence, current.channels, named, speeds)
    peaks += changed_peaks(
        spectra.envelope, spectra.healthy_envelope, envelope_evidence, current.channels, named, speeds, envelope=True
    )
    begin = current.offset / current.sample_rate
    return Explanation(
        source=current.source,
        begin=begin,
        end=begin + current.seconds,
        condition=condition_text(current),
        healthy=tuple(one.source for one in near),
        speed=rpm,
        supply=supply,
        families=tuple(families),
        peaks=tuple(sorted(peaks, key=lambda one: -one.evidence)),
        bands=tuple(_bands(current, near)),
        name_by_chance=chance_of_a_name(spectra.current, named, speeds) if named else None,
        notes=tuple(notes),
    ), spectra


def _bands(current: Recording, healthy: Sequence[Recording]) -> list[BandChange]:
    if not healthy:
        return []
    signals = [one.signal.astype(np.float64) for one in healthy]
    return band_changes(current.signal.astype(np.float64), signals, current.sample_rate, current.channels)


def _spectra(
    current: Recording, healthy: Sequence[Recording], speed: float | None, method: EnvelopeMethod, notes: list[str]
) -> tuple[ExplainedSpectra, float | None]:
    """Return the spectra at the speed of the interval, and that speed in rpm; None if it is unknown."""
    recordings = (current, *healthy)
    traces = [speed_trace(one, speed) for one in recordings]
    own = traces[0]
    rpm = None if own is None else float(np.mean(own, dtype=np.float64))
    signals = [one.signal.astype(np.float64) for one in recordings]
    for place, trace in enumerate(traces):
        if rpm is None or trace is None or (place == 0 and is_steady(trace)):
            continue
        mean = float(np.mean(trace, dtype=np.float64))
        if abs(mean / rpm - 1) > MOST_RESCALING:
            notes.append(
                f"{recordings[place].source}: healthy at {mean:.0f} rpm instead of {rpm:.0f} rpm; its lines are elsewhere"
            )
            continue
        signals[place] = at_speed(signals[place], trace, rpm)
    rate, shortest = current.sample_rate, min(one.shape[1] for one in signals)
    frame = frame_samples(shortest, rate, LONGEST_FRAME)
    seconds = frame_samples(shortest, rate, LONGEST_ENVELOPE_FRAME) / rate
    plain = [averaged_spectrum(one, rate, frame) for one in signals]
    envelopes = [envelope_spectrum(one, rate, seconds, method) for one in signals]
    return ExplainedSpectra(
        current.channels,
        current.units,
        plain[0],
        tuple(plain[1:]),
        envelopes[0],
        tuple(envelopes[1:]),
        signals[0],
        rate,
    ), rpm


def _matches(
    machine: Kinematics,
    current: Recording,
    spectra: ExplainedSpectra,
    spectrum_evidence: DoubleArray,
    envelope_evidence: DoubleArray,
    speeds: tuple[float, float],
) -> list[FamilyMatch]:
    currents = current_channels(current, machine)
    others = [place for place in range(len(current.channels)) if place not in currents]
    found = []
    for family in line_families(machine):
        chosen = sorted(currents) if family.domain == "current" else others
        in_envelope = family.domain == "envelope"
        evidence = envelope_evidence if in_envelope else spectrum_evidence
        step = spectra.envelope.step if in_envelope else spectra.current.step
        if chosen and (match := match_family(evidence, step, family, chosen, *speeds)) is not None:
            found.append(match)
    return found


def _ranked(matches: Sequence[FamilyMatch]) -> list[FamilyMatch]:
    """Return the matches, the strongest of those that speak first.

    A family whose lines all belong to another one that speaks as well is explained by that one, and comes after it.
    """
    spoken = [one for one in matches if one.speaks]
    weaker = [one for one in matches if any(_contains(other.family, one.family) for other in spoken)]
    stronger = [
        replace(one, strength=max(one.strength, *(part.strength for part in weaker if _contains(one.family, part.family))))
        if one in spoken and any(_contains(one.family, part.family) for part in weaker)
        else one
        for one in matches
        if one not in weaker
    ]
    stronger.sort(key=lambda one: (not one.speaks, -one.strength))
    weaker.sort(key=lambda one: -one.strength)
    spoken_count = sum(one.speaks for one in stronger)
    return [*stronger[:spoken_count], *weaker, *stronger[spoken_count:]]


def _contains(whole: LineFamily, part: LineFamily) -> bool:
    if whole is part or whole.domain != part.domain or len(part.lines) >= len(whole.lines):
        return False
    lines = {(line.shaft, line.supply) for line in whole.lines}
    return all((line.shaft, line.supply) in lines for line in part.lines)


def _explained(
    match: FamilyMatch, spectra: ExplainedSpectra, speeds: tuple[float, float], evidence: tuple[DoubleArray, DoubleArray]
) -> ExplainedFamily:
    family, channel = match.family, match.loudest
    in_envelope = family.domain == "envelope"
    current = spectra.envelope if in_envelope else spectra.current
    healthy = spectra.healthy_envelope if in_envelope else spectra.healthy
    lines = []
    for line in family.lines:
        frequency = line.frequency(*speeds) * (1 + match.slip)
        place = round(frequency / current.step)
        if 1 <= place < current.power.shape[1] - 1:
            near = slice(place - 1, place + 2)
            clear = float(evidence[in_envelope][channel, near].max())
            lines.append((clear * line.weight, NamedFrequency(line.name, frequency, _rise(current, healthy, channel, near))))
    lines.sort(key=lambda pair: -pair[0])
    return ExplainedFamily(
        part=family.part,
        name=family.name,
        meaning=family.meaning,
        domain=family.domain,
        strength=match.strength,
        chance=match.chance,
        speaks=match.speaks,
        channel=spectra.channels[channel],
        lines=tuple(one for clear, one in lines[:SHOWN_LINES] if clear > 0),
    )


def _rise(
    current: AveragedSpectrum, healthy: Sequence[AveragedSpectrum], channel: int, near: slice
) -> float:
    """Return by how much the highest line there rose in dB; above its surroundings without a healthy spectrum."""
    now = current.decibels[channel, near].max()
    if not healthy:
        return float(now - np.median(current.decibels[channel]))
    return float(now - max(one.decibels[channel, near].max() for one in healthy))
