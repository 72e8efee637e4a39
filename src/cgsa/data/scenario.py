"""Scenarios: which recordings train a model, and which stream it then runs on.

A scenario is a TOML file for people to read and edit. It names the classes,
channels and conditions, the offline segments and the online stages. Segments
and stages are cut by the *measured* conditions, not by time, because the
measured curve lags the set curve.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from cgsa.config import as_table, bind, builtin_files, one_as, read_named, stored_if_given, toml_text
from cgsa.data.intervals import HELD_SECONDS, SampleRange, Trace, held_intervals, rising_intervals, smoothed
from cgsa.data.recording import Interval, Recording
from cgsa.data.run import Severity
from cgsa.data.windows import Segment
from cgsa.errors import ConfigError, DataError, LeakError

T = TypeVar("T")

LEVEL_ERROR = 0.05
"""Real brakes hold a nominal level within 1 to 4 % only, as the excerpts of MCC5-THU show."""
WIDENING = 2.0
"""Multiple of the tolerance that counts if nothing is closer: an idle torque is never 0, and no share of it helps."""


@dataclass(frozen=True)
class Condition:
    """An operating condition that changes, and the range that maps onto c in [0, 1]."""

    name: str
    """Name of the condition trace, such as ``torque``."""
    unit: str
    minimum: float
    """T_min of the paper's normalisation (section III-A3)."""
    maximum: float
    """T_max of the paper's normalisation."""
    tolerance: float
    """Deviation of a measured value from a level that still counts as that level; :meth:`widest` follows from it."""

    def __post_init__(self) -> None:
        if not self.minimum < self.maximum or self.tolerance <= 0:
            raise ConfigError(
                f"range {self.minimum:g} to {self.maximum:g} with tolerance {self.tolerance:g}; "
                f"expected minimum < maximum and a positive tolerance"
            )

    def widest(self, level: float) -> float:
        """Return the largest deviation from a level that counts, with a note, if no measured value is closer.

        >>> torque = Condition("torque", "Nm", 0, 15, tolerance=0.5)
        >>> torque.widest(0), torque.widest(40)
        (1.0, 2.0)
        """
        return max(WIDENING * self.tolerance, LEVEL_ERROR * abs(level))


def check_conditions(conditions: Sequence[Condition]) -> None:
    """Require at least one condition, and unique names."""
    names = [condition.name for condition in conditions]
    if not names or len(set(names)) != len(names):
        raise ConfigError(f"conditions {', '.join(names) or 'none'}; expected at least one, and different names")


@dataclass(frozen=True)
class SegmentSelection:
    """Which part of a run to cut out: where a level is held, or a rising ramp between two levels.

    With several conditions, levels and ramps are given by condition name, and a
    condition that is not named may have any value.
    """

    name: str
    """Name of the segment or stage, such as ``T1`` or ``C2``."""
    run: str
    """The run to cut from, such as ``torque_circulation_1000rpm_10Nm``."""
    also: tuple[str, ...] = ()
    """Further runs to cut in the same way, such as the same level with a sensor at another place."""
    level: float | Mapping[str, float] | None = None
    """Keep the first interval at this level, or at all of these."""
    ramp: tuple[float, float] | Mapping[str, tuple[float, float]] | None = None
    """Keep the first rise of one condition from the first to the second value."""
    seconds: float | None = None
    """Keep at most this duration."""
    part: tuple[float, float] = (0.0, 1.0)
    """Keep this range of the interval, such as the first 60 % for training and the rest for the stream."""
    whole: bool = False
    """Keep all of the run, whatever its conditions, instead of a level or ramp."""
    states: tuple[str, ...] = ()
    """Classes of which the runs exist; by default all."""

    def __post_init__(self) -> None:
        if [self.level is not None, self.ramp is not None, self.whole].count(True) != 1:
            raise ConfigError(f"{self.name}: expected either level or ramp, or the whole run")
        ramps = self.ramp.values() if isinstance(self.ramp, Mapping) else [self.ramp]
        falling = [list(ramp) for ramp in ramps if ramp is not None and not ramp[0] < ramp[1]]
        if falling:
            raise ConfigError(f"{self.name}: ramp {falling[0]} does not rise")
        if not 0 <= self.part[0] < self.part[1] <= 1:
            raise ConfigError(f"{self.name}: part {list(self.part)}; expected two increasing shares between 0 and 1")
        if self.seconds is not None and self.seconds <= 0:
            raise ConfigError(f"{self.name}: seconds {self.seconds:g}; expected a positive number")
        if len(set(self.runs)) != len(self.runs):
            raise ConfigError(f"{self.name}: runs {', '.join(self.runs)}; expected unique names")

    @property
    def runs(self) -> tuple[str, ...]:
        """All runs to cut from."""
        return (self.run, *self.also)

    def levels(self, conditions: Sequence[Condition]) -> list[tuple[Condition, float]]:
        """Return the conditions that are at a level, with that level."""
        return _by_condition(self.level, conditions, f"{self.name}: level")

    def ramps(self, conditions: Sequence[Condition]) -> list[tuple[Condition, tuple[float, float]]]:
        """Return the condition that rises, if any, with its two levels."""
        found = _by_condition(self.ramp, conditions, f"{self.name}: ramp")
        if len(found) > 1:
            raise ConfigError(f"{self.name}: ramp of {len(found)} conditions; expected one")
        return found

    def describe(self, conditions: Sequence[Condition]) -> str:
        """Return a description such as ``1200 rpm and 11 lb``.

        >>> SegmentSelection("C1", "run", level=20).describe([Condition("torque", "Nm", 0, 30, 1)])
        '20 Nm'
        """
        levels = [f"{level:g} {condition.unit}" for condition, level in self.levels(conditions)]
        ramps = [f"{low:g} to {high:g} {condition.unit}" for condition, (low, high) in self.ramps(conditions)]
        return " and ".join(levels + ramps)


@dataclass(frozen=True)
class Stage(SegmentSelection):
    """A stage of the online stream."""

    fault_from: float = 1.0
    """Share of the stage before the onset of the fault: 1 is healthy, 0.5 an onset in the middle, 0 faulty."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.fault_from <= 1:
            raise ConfigError(f"{self.name}: fault_from {self.fault_from:g}; expected 0 to 1")


class Library(Protocol):
    """A provider of the recordings that a scenario needs."""

    def get(self, state: str, run: str, *, severity: Severity, specimen: int) -> Recording:
        """Return one run of one specimen."""
        ...

    def specimens(self) -> Sequence[int]:
        """Return the numbers of the specimens that training may use."""
        ...

    def specimens_of(self, state: str, run: str) -> Sequence[int]:
        """Return those of them that have a run of a state.

        A library may instead raise an error that lists what it has, if no specimen has that run.
        """
        ...


SpecimenKind = Literal["unit", "run"]


@dataclass(frozen=True)
class Scenario:
    """Classes, channels, conditions, offline segments and online stages."""

    name: str
    title: str
    healthy: str
    faults: tuple[str, ...]
    """Empty if only healthy recordings exist."""
    channels: tuple[str, ...]
    sample_rate: float
    conditions: tuple[Condition, ...] = field(metadata=one_as("condition"))
    offline: tuple[SegmentSelection, ...]
    online: tuple[Stage, ...]
    machine: str | None = None
    """Name of the rig that simulates the machine; None if there are only real recordings."""
    severity: Severity = "H"
    """Which severity of a fault to use if there are several."""
    severities: Mapping[str, Severity] = field(default_factory=dict)
    """Faults with another severity."""
    specimens: SpecimenKind = field(default="unit", metadata=stored_if_given())
    """What the numbered specimens of the recordings are: assemblies, or repeated measurements of one machine."""

    def __post_init__(self) -> None:
        if self.healthy in self.faults or len(set(self.faults)) != len(self.faults):
            raise ConfigError(f"classes {self.classes}; expected a healthy state and different faults")
        unknown = ", ".join(fault for fault in self.severities if fault not in self.faults)
        if unknown:
            raise ConfigError(f"severities of {unknown}; expected those of {', '.join(self.faults)}")
        if not self.offline or not self.online:
            raise ConfigError("expected at least one offline segment and one online stage")
        check_conditions(self.conditions)
        for cut in (*self.offline, *self.online):
            cut.describe(self.conditions)  # raises an error for unknown conditions

    @property
    def classes(self) -> tuple[str, ...]:
        """All classes, the healthy one first."""
        return (self.healthy, *self.faults)

    @property
    def condition_names(self) -> tuple[str, ...]:
        """Names of the condition traces."""
        return tuple(condition.name for condition in self.conditions)

    @property
    def runs(self) -> tuple[str, ...]:
        """All runs that the scenario uses."""
        return tuple(sorted({run for cut in (*self.offline, *self.online) for run in cut.runs}))

    @classmethod
    def load(cls, name_or_path: str | Path) -> Scenario:
        """Load a built-in scenario by name, or any scenario from a TOML file."""
        return bind(cls, read_named(name_or_path, builtin_scenarios(), "scenario"), f"scenario {name_or_path}")

    def to_toml(self) -> str:
        """Return the scenario as TOML that :meth:`load` can read."""
        return toml_text(as_table(self))

    def healthy_only(self) -> Scenario:
        """Return the scenario with its healthy recordings alone."""
        return replace(self, faults=(), severities={})

    def severity_of(self, state: str) -> Severity:
        """Return the severity to use for a state."""
        return self.severities.get(state, self.severity)

    def require_fault(self, fault: str) -> str:
        """Return ``fault``; raise an error with the known faults if it is unknown."""
        if fault not in self.faults:
            raise ConfigError(f"scenario {self.name}: no fault {fault!r}; it has {', '.join(self.faults)}")
        return fault

    def require_rig(self) -> str:
        """Return the name of the rig that simulates the machine; raise an error if there is none."""
        if self.machine is None:
            raise ConfigError(f"scenario {self.name}: no rig simulates it; pass a folder of recordings (--data)")
        return self.machine

    def training_segments(self, library: Library, specimens: int | None = None) -> list[Segment]:
        """Cut every offline segment of every class out of all specimens in the library that have it.

        ``specimens`` is how many of them to use at most.
        """
        having = {
            (state, run): self.training_specimens(library, state, cut, run=run)
            for state in self.classes
            for cut in self.offline
            if not cut.states or state in cut.states
            for run in cut.runs
        }
        return [
            Segment(self.cut(library, state, cut, run=run, specimen=specimen), label, stage, machine=specimen)
            for specimen in library.specimens()[:specimens]
            for label, state in enumerate(self.classes)
            for stage, cut in enumerate(self.offline)
            for run in cut.runs
            if specimen in having.get((state, run), ())
        ]

    def training_specimens(self, library: Library, state: str, cut: SegmentSelection, *, run: str) -> Sequence[int]:
        """Return the specimens that an offline segment is cut from; raise an error if there are none."""
        found = library.specimens_of(state, run)
        if not found:
            known = ", ".join(map(str, library.specimens())) or "none"
            raise DataError(
                f"scenario {self.name}: no recording of {state}, {run}, for {cut.name}; "
                f"expected one of any specimen that training may use ({known})"
            )
        return found

    def stream_segments(self, library: Library, fault: str, *, specimen: int = 1) -> list[Segment]:
        """Cut the online stream: healthy until the onset, then ``fault`` until the end.

        At the onset the healthy run ends and the faulty one continues at the same
        share of the stage. No window crosses the onset, since it would combine
        two recordings. In a stage with several runs, all of them are healthy
        before any is faulty.
        """
        label = self.classes.index(self.require_fault(fault))
        segments: list[Segment] = []
        for number, stage in enumerate(self.online):
            for state, index, begin, end in (
                (self.healthy, 0, 0.0, stage.fault_from),
                (fault, label, stage.fault_from, 1.0),
            ):
                for run in stage.runs if begin < end else ():
                    whole = self.cut(library, state, stage, run=run, specimen=specimen)
                    piece = whole.cut(round(begin * whole.samples), round(end * whole.samples))
                    segments.append(Segment(piece, index, number, machine=specimen))
        return segments

    def cut(self, library: Library, state: str, cut: SegmentSelection, *, run: str, specimen: int) -> Recording:
        """Cut one segment or stage out of one run of a state."""
        recording = library.get(state, run, severity=self.severity_of(state), specimen=specimen)
        if recording.sample_rate != self.sample_rate:
            raise DataError(
                f"{recording.source}: {recording.sample_rate:g} Hz; scenario {self.name} expects "
                f"{self.sample_rate:g} Hz; replace the file, or change sample_rate in a copy of the scenario"
            )
        for name in self.condition_names:
            if name not in recording.conditions:
                has = ", ".join(recording.conditions) or "none"
                raise DataError(
                    f"{recording.source}: no trace of {name!r} to cut segments by; it has {has}; replace it with a "
                    f"file that has a column for it, such as one of a later release of the data set"
                )
        found = find_segment(recording, self.conditions, cut)
        begin, end = (found.begin + round(share * (found.end - found.begin)) for share in cut.part)
        piece = recording.cut(begin, end).select(self.channels).require_finite()
        return replace(piece, notes=(*recording.notes, *found.notes))


def builtin_scenarios() -> dict[str, Path]:
    """Return the built-in scenario files by name."""
    return builtin_files("scenarios")


def check_no_leak(trained: Iterable[Interval], streamed: Iterable[Interval]) -> None:
    """Raise an error if a raw sample is in both training data and stream."""
    training = list(trained)
    for source, begin, end in streamed:
        for known, first, last in training:
            if known == source and max(begin, first) < min(end, last):
                raise LeakError(
                    f"{source}: samples {max(begin, first)} to {min(end, last)} are in both training data and stream; "
                    f"separate the offline segments from the online stages in a copy of the scenario"
                )


@dataclass(frozen=True)
class FoundInterval:
    """The interval of a recording that a selection stands for."""

    begin: int
    """First sample."""
    end: int
    """The one after the last."""
    notes: tuple[str, ...] = ()
    """In what it differs from the selection: levels that are off, or a shorter time."""


def find_segment(recording: Recording, conditions: Sequence[Condition], cut: SegmentSelection) -> FoundInterval:
    """Return the interval of a recording that ``cut`` selects.

    Levels and both ends of a ramp may be off by the tolerance of their condition. If nothing is that close, they may be
    off by :meth:`Condition.widest`, and a note says what was accepted.
    """
    if cut.whole:
        return FoundInterval(0, recording.samples)
    rate, ramps, levels = recording.sample_rate, cut.ramps(conditions), cut.levels(conditions)
    used = [condition for condition, _ in (*levels, *ramps)]
    traces = {one.name: smoothed(recording.conditions[one.name], rate) for one in used}
    measured = ", ".join(
        f"measured {one.name} goes from {traces[one.name].min():.2f} to {traces[one.name].max():.2f} {one.unit}"
        for one in used
    )
    needed = recording.samples if cut.seconds is None else round(cut.seconds * rate)
    wanted = cut.describe(conditions)
    notes: list[str] = []
    if levels:
        found = _find_levels(traces, rate, levels, needed)
    for condition, ramp in ramps:
        found, part = _find_ramp(traces[condition.name], condition, ramp)
        if part != (ramp[0] + condition.tolerance, ramp[1] - condition.tolerance):
            notes.append(
                f"{cut.name}: the rise over {part[0]:g} to {part[1]:g} {condition.unit} is accepted as {wanted}; "
                f"{measured}"
            )
    if not found:
        what, held = ("interval at", f", held for {HELD_SECONDS:g} s") if levels else ("rise over", "")
        raise DataError(
            f"{recording.source}: no {what} {wanted} for {cut.name}; {measured}; up to {_accepted(levels, ramps)} off "
            f"is accepted{held}; replace the file, or change {cut.name} or the tolerance in a copy of the scenario"
        )
    whole = next(((begin, begin + needed) for begin, end in found if end - begin >= needed), None)
    begin, end = whole or max(found, key=lambda interval: interval[1] - interval[0])
    for one, level in levels:
        mean = traces[one.name][begin:end].mean()
        if abs(mean - level) > one.tolerance:
            notes.append(f"{cut.name}: {one.name} {mean:.2f} {one.unit} is accepted as {level:g} {one.unit}")
    if whole is None and cut.seconds is not None:
        notes.append(f"{cut.name}: {(end - begin) / rate:.2f} s instead of {cut.seconds:g} s; the run has no more")
    return FoundInterval(begin, end, tuple(notes))


def _accepted(levels: Sequence[tuple[Condition, float]], ramps: Sequence[tuple[Condition, tuple[float, float]]]) -> str:
    """Return the largest deviations that count, such as ``1 Nm and 30 rpm``."""
    found = [(one, one.widest(level)) for one, level in levels]
    found += [(one, max(map(one.widest, ramp))) for one, ramp in ramps]
    return " and ".join(f"{deviation:g} {one.unit}" for one, deviation in found)


def _find_ramp(
    trace: Trace, condition: Condition, ramp: tuple[float, float]
) -> tuple[list[SampleRange], tuple[float, float]]:
    """Return all rises over a ramp, and the values between which they rise: the ramp without the tolerances."""
    low, high = ramp
    # However wide they get, a third of the ramp is left between the two.
    strict, most = condition.tolerance, (high - low) / 3
    below, above = ((strict, max(strict, min(condition.widest(level), most))) for level in ramp)
    part = ramp
    for first, last in product(below, above):
        part = low + first, high - last
        if found := rising_intervals(trace, *part):
            return found, part
    return [], part


def _find_levels(
    traces: Mapping[str, Trace], rate: float, levels: Sequence[tuple[Condition, float]], needed: int
) -> list[SampleRange]:
    """Return the intervals at all levels: the nearest ones that are as long as needed, or else the nearest ones."""
    found: list[SampleRange] = []
    for error in (0.0, LEVEL_ERROR):
        limits = [(traces[one.name], level, max(one.tolerance, error * abs(level))) for one, level in levels]
        found = held_intervals(limits, rate)
        if any(end - begin >= needed for begin, end in found):
            return found
    return found or held_intervals([(traces[one.name], level, one.widest(level)) for one, level in levels], rate)


def _by_condition(
    given: T | Mapping[str, T] | None, conditions: Sequence[Condition], what: str
) -> list[tuple[Condition, T]]:
    """Return the value given for each condition that is named."""
    if given is None:
        return []
    names = [condition.name for condition in conditions]
    if not isinstance(given, Mapping):
        if len(names) > 1:
            raise ConfigError(f"{what} {given}; expected a table with one or more of {', '.join(names)}")
        return [(conditions[0], given)]
    if not given or not given.keys() <= set(names):
        raise ConfigError(f"{what} of {', '.join(given) or 'nothing'}; the conditions are {', '.join(names)}")
    return [(condition, given[condition.name]) for condition in conditions if condition.name in given]
