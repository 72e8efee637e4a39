"""What an interval of a recording has that the healthy machine has not, named by the parts of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cgsa.data.recording import Recording
from cgsa.errors import DataError
from cgsa.explain.bands import BandChange, band_changes
from cgsa.explain.envelope import EnvelopeMethod, envelope_spectra
from cgsa.explain.evidence import SpectrumComparison, compare_spectra, pooled_comparison
from cgsa.explain.kinematics import Kinematics
from cgsa.explain.line_families import Speeds, line_families
from cgsa.explain.matching import LOWEST_LINE, FamilyMatch, match_family, ranked
from cgsa.explain.operation import condition_text, current_channels, nearest_healthy, speed_trace, supply_frequency
from cgsa.explain.peaks import ChangedPeak, NamedFrequency, chance_of_a_name, changed_peaks, named_lines
from cgsa.explain.spectra import (
    LONGEST_ENVELOPE_FRAME,
    LONGEST_FRAME,
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
    """Mean evidence of its lines above that at random speeds, in standard deviations of the latter."""
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
    plain: SpectrumComparison
    envelope: SpectrumComparison
    signal: DoubleArray
    rate: float

    def of(self, domain: str) -> SpectrumComparison:
        """Return the spectra in which the lines of a domain are."""
        return self.envelope if domain == "envelope" else self.plain


def explain_interval(
    current: Recording,
    healthy: Sequence[Recording] = (),
    machine: Kinematics | None = None,
    *,
    speed: float | None = None,
    envelope: EnvelopeMethod = "pooled",
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
    if not near:
        notes.append("no healthy recording: lines are compared with their surroundings only")
    spectra, rpm = _spectra(current, near, speed, envelope, notes)
    speeds = None
    matches: list[FamilyMatch] = []
    if machine is not None and rpm is None:
        notes.append("the speed is unknown, so that lines have no names; give it")
    elif machine is not None and rpm is not None:
        rotor = 0.0 if machine.motor is None else rpm / 60 * machine.ratios[machine.motor.shaft]
        speeds = Speeds(rpm / 60, supply_frequency(machine.motor, rotor, spectra.plain.current, current.channels))
        matches = matched_families(machine, current, spectra, speeds)
    chosen = [(one.family, one.slip) for one in matches]
    names, in_envelope = (
        named_lines(chosen, speeds, envelope=one) if speeds is not None else [] for one in (False, True)
    )
    peaks = changed_peaks(spectra.plain, current.channels, names)
    peaks += changed_peaks(spectra.envelope, current.channels, in_envelope, envelope=True)
    begin = current.offset / current.sample_rate
    explanation = Explanation(
        source=current.source,
        begin=begin,
        end=begin + current.seconds,
        condition=condition_text(current),
        healthy=tuple(one.source for one in near),
        speed=rpm,
        supply=None if machine is None or machine.motor is None or speeds is None else speeds.supply,
        families=tuple(_explained(one, spectra, speeds) for one in matches if speeds is not None),
        peaks=tuple(sorted(peaks, key=lambda one: -one.evidence)),
        bands=tuple(_bands(current, near)),
        name_by_chance=chance_of_a_name(spectra.plain.current, names) if names else None,
        notes=tuple(notes),
    )
    return explanation, spectra


def _bands(current: Recording, healthy: Sequence[Recording]) -> list[BandChange]:
    if not healthy:
        return []
    signals = [one.signal.astype(np.float64) for one in healthy]
    return band_changes(current.signal.astype(np.float64), signals, current.sample_rate, current.channels)


def _spectra(
    current: Recording, healthy: Sequence[Recording], speed: float | None, method: EnvelopeMethod, notes: list[str]
) -> tuple[ExplainedSpectra, float | None]:
    """Return the spectra at the speed of the interval, and that speed in rpm; None if it is unknown."""
    own = speed_trace(current, speed)
    rpm = None if own is None else float(np.mean(own, dtype=np.float64))
    signals = []
    for number, one in enumerate((current, *healthy)):
        signal, trace = one.signal.astype(np.float64), speed_trace(one, speed)
        mean = None if trace is None else float(np.mean(trace, dtype=np.float64))
        if rpm is not None and trace is not None and mean is not None and not (number == 0 and is_steady(trace)):
            if abs(mean / rpm - 1) <= MOST_RESCALING:
                signal = at_speed(signal, trace, rpm)
            else:
                notes.append(f"{one.source}: healthy at {mean:.0f} rpm, not {rpm:.0f} rpm; its lines are elsewhere")
        signals.append(signal)
    rate, shortest = current.sample_rate, min(one.shape[1] for one in signals)
    frame = frame_samples(shortest, rate, LONGEST_FRAME)
    seconds = frame_samples(shortest, rate, LONGEST_ENVELOPE_FRAME) / rate
    plain = [averaged_spectrum(one, rate, frame) for one in signals]
    envelopes = zip(*(envelope_spectra(one, rate, seconds, method) for one in signals), strict=True)
    found = ExplainedSpectra(
        current.channels,
        current.units,
        compare_spectra(plain[0], plain[1:]),
        pooled_comparison([compare_spectra(now, before, relative=True) for now, *before in envelopes]),
        signals[0],
        rate,
    )
    return found, rpm


def matched_families(
    machine: Kinematics, current: Recording, spectra: ExplainedSpectra, speeds: Speeds
) -> list[FamilyMatch]:
    """Return how the families of all parts of a machine stand out at some speeds, most telling first."""
    currents = current_channels(current, machine)
    others = [place for place in range(len(current.channels)) if place not in currents]
    found = []
    for family in line_families(machine):
        chosen = sorted(currents) if family.domain == "current" else others
        match = match_family(spectra.of(family.domain), family, chosen, speeds) if chosen else None
        if match is not None:
            found.append(match)
    return ranked(found)


def _explained(match: FamilyMatch, spectra: ExplainedSpectra, speeds: Speeds) -> ExplainedFamily:
    family, channel, comparison = match.family, match.loudest, spectra.of(match.family.domain)
    step, count = comparison.current.step, comparison.current.power.shape[1]
    lines = []
    for line in family.lines:
        frequency = line.frequency(speeds) * (1 + match.slip)
        place = round(frequency / step)
        if LOWEST_LINE <= place < count - 1:
            clear = float(comparison.evidence[channel][place - 1 : place + 2].max())
            lines.append((clear * line.weight, NamedFrequency(line.name, frequency, comparison.rise(channel, place))))
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
