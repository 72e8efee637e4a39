"""A scenario: which recordings train a model, and which stream it then meets.

A scenario is a TOML file that people read and change. It names the classes,
channels and conditions, the offline segments and the online stages. Segments
and stages are cut by the *measured* conditions, not by the clock, because the
measured curve lags the set curve.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from cgsa.config import bind, builtin_files, one_as, read_named
from cgsa.data.recording import Interval, Recording
from cgsa.data.windows import Segment
from cgsa.errors import ConfigError, DataError, LeakError

T = TypeVar("T")

SMOOTHING_SECONDS = 0.1
"""A measured condition is averaged over this long before it is compared with a level."""
LEVEL_ERROR = 0.05
"""Real brakes hold a named level within 1 to 4 % (as the excerpts of MCC5-THU show), not exactly."""


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
    """How far from a named level the measured value may stand and still count as that level."""

    def __post_init__(self) -> None:
        if not self.minimum < self.maximum or self.tolerance <= 0:
            raise ConfigError(
                f"range {self.minimum:g} to {self.maximum:g} with tolerance {self.tolerance:g}; "
                f"expected minimum < maximum and a positive tolerance"
            )


def check_conditions(conditions: Sequence[Condition]) -> None:
    """Refuse to have no condition, or two of one name."""
    names = [condition.name for condition in conditions]
    if not names or len(set(names)) != len(names):
        raise ConfigError(f"conditions {', '.join(names) or 'none'}; expected at least one, and different names")


@dataclass(frozen=True)
class SegmentSelection:
    """Where in a run to look: a level that is held, or a rising ramp between two levels.

    Where there are several conditions, levels and ramps are told by their names.
    A condition that is not named may be anything.
    """

    name: str
    """Name of the segment or stage, such as ``T1`` or ``C2``."""
    run: str
    """The run to cut from, such as ``torque_circulation_1000rpm_10Nm``."""
    also: tuple[str, ...] = ()
    """Further runs to cut alike, such as the same level with a sensor at another place."""
    level: float | Mapping[str, float] | None = None
    """Keep the first stretch held at this level, or at all of these."""
    ramp: tuple[float, float] | Mapping[str, tuple[float, float]] | None = None
    """Keep the first rise from the first to the second value, of one condition."""
    seconds: float | None = None
    """Keep at most this much."""
    part: tuple[float, float] = (0.0, 1.0)
    """Keep this share of what was found, such as the first 60 % for training and the rest for the stream."""

    def __post_init__(self) -> None:
        if (self.level is None) == (self.ramp is None):
            raise ConfigError(f"{self.name}: give either level or ramp")
        ramps = self.ramp.values() if isinstance(self.ramp, Mapping) else [self.ramp]
        falling = [list(ramp) for ramp in ramps if ramp is not None and not ramp[0] < ramp[1]]
        if falling:
            raise ConfigError(f"{self.name}: ramp {falling[0]} does not rise")
        if not 0 <= self.part[0] < self.part[1] <= 1:
            raise ConfigError(f"{self.name}: part {list(self.part)}; expected two rising shares from 0 to 1")
        if self.seconds is not None and self.seconds <= 0:
            raise ConfigError(f"{self.name}: seconds {self.seconds:g}; expected a positive number")
        if len(set(self.runs)) != len(self.runs):
            raise ConfigError(f"{self.name}: runs {', '.join(self.runs)}; expected each once")

    @property
    def runs(self) -> tuple[str, ...]:
        """All runs to cut from."""
        return (self.run, *self.also)

    def levels(self, conditions: Sequence[Condition]) -> list[tuple[Condition, float]]:
        """Return every condition that is held, with its level."""
        return _by_condition(self.level, conditions, f"{self.name}: level")

    def ramps(self, conditions: Sequence[Condition]) -> list[tuple[Condition, tuple[float, float]]]:
        """Return the condition that rises, with its two levels; none where none does."""
        found = _by_condition(self.ramp, conditions, f"{self.name}: ramp")
        if len(found) > 1:
            raise ConfigError(f"{self.name}: ramp of {len(found)} conditions; expected one that rises")
        return found

    def describe(self, conditions: Sequence[Condition]) -> str:
        """Return what is looked for in words, such as ``1200 rpm and 11 lb``.

        >>> SegmentSelection("C1", "run", level=20).describe([Condition("torque", "Nm", 0, 30, 1)])
        '20 Nm'
        """
        held = [f"{level:g} {condition.unit}" for condition, level in self.levels(conditions)]
        rising = [f"{low:g} to {high:g} {condition.unit}" for condition, (low, high) in self.ramps(conditions)]
        return " and ".join(held + rising)


@dataclass(frozen=True)
class Stage(SegmentSelection):
    """A stage of the online stream."""

    fault_from: float = 1.0
    """Share of the stage after which the fault is there: 1 healthy, 0.5 onset at the middle, 0 faulty."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.fault_from <= 1:
            raise ConfigError(f"{self.name}: fault_from {self.fault_from:g}; expected 0 to 1")


class Library(Protocol):
    """A place that holds the recordings a scenario asks for."""

    def get(self, state: str, run: str, *, severity: str, specimen: int) -> Recording:
        """Return one run of one specimen."""
        ...

    def specimens(self) -> Sequence[int]:
        """Return the numbers of the specimens that are there."""
        ...


@dataclass(frozen=True)
class Scenario:
    """Classes, channels, conditions, offline segments and online stages."""

    name: str
    title: str
    healthy: str
    faults: tuple[str, ...]
    channels: tuple[str, ...]
    sample_rate: float
    conditions: tuple[Condition, ...] = field(metadata=one_as("condition"))
    offline: tuple[SegmentSelection, ...]
    online: tuple[Stage, ...]
    machine: str | None = None
    """Which rig simulates it and which file layout it has; none where there are real recordings alone."""
    severity: Literal["L", "M", "H"] = "H"
    """Which severity of a fault to take where there are several."""
    severities: Mapping[str, str] = field(default_factory=dict)
    """Faults for which another severity is to be taken."""

    def __post_init__(self) -> None:
        if self.healthy in self.faults or len(set(self.faults)) != len(self.faults) or not self.faults:
            raise ConfigError(f"classes {self.classes}; expected a healthy state and different faults")
        wrong = [f"{fault} = {size!r}" for fault, size in self.severities.items() if not self._is_severity(fault, size)]
        if wrong:
            raise ConfigError(f"severities {', '.join(wrong)}; expected L, M or H for one of {', '.join(self.faults)}")
        if not self.offline or not self.online:
            raise ConfigError("expected at least one offline segment and one online stage")
        check_conditions(self.conditions)
        for cut in (*self.offline, *self.online):
            cut.describe(self.conditions)  # refuses what is not of these conditions

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
        """All runs that the scenario cuts from."""
        return tuple(sorted({run for cut in (*self.offline, *self.online) for run in cut.runs}))

    @classmethod
    def load(cls, name_or_path: str | Path) -> Scenario:
        """Read a scenario by the name of a built-in one or from a TOML file."""
        return bind(cls, read_named(name_or_path, builtin_scenarios(), "scenario"), f"scenario {name_or_path}")

    def severity_of(self, state: str) -> str:
        """Return the severity in which a state is to be taken."""
        return self.severities.get(state, self.severity)

    def _is_severity(self, fault: str, size: object) -> bool:
        return fault in self.faults and size in ("L", "M", "H")

    def require_fault(self, fault: str) -> str:
        """Return ``fault``, or say which faults there are."""
        if fault not in self.faults:
            raise ConfigError(f"scenario {self.name}: no fault {fault!r}; it has {', '.join(self.faults)}")
        return fault

    def require_rig(self) -> str:
        """Return the name of the rig that simulates the machine, or say that none does."""
        if self.machine is None:
            raise ConfigError(f"scenario {self.name}: no rig simulates it; it takes a folder of recordings (--data)")
        return self.machine

    def training_segments(self, library: Library) -> list[Segment]:
        """Cut every offline segment of every class out of all specimens in the library."""
        return [
            Segment(self.cut(library, state, cut, run=run, specimen=specimen), label, part, machine=specimen)
            for specimen in library.specimens()
            for label, state in enumerate(self.classes)
            for part, cut in enumerate(self.offline)
            for run in cut.runs
        ]

    def stream_segments(self, library: Library, fault: str, *, specimen: int = 1) -> list[Segment]:
        """Cut the online stream: healthy until the onset, then ``fault`` until the end.

        At the onset the healthy run ends and the faulty one goes on at the same
        share of the stage. No window crosses the onset, since such a window
        would be a splice of two recordings. Where a stage has several runs, all
        of them are healthy before any is faulty.
        """
        label = self.classes.index(self.require_fault(fault))
        segments: list[Segment] = []
        for part, stage in enumerate(self.online):
            for state, index, begin, end in (
                (self.healthy, 0, 0.0, stage.fault_from),
                (fault, label, stage.fault_from, 1.0),
            ):
                for run in stage.runs if begin < end else ():
                    whole = self.cut(library, state, stage, run=run, specimen=specimen)
                    piece = whole.cut(round(begin * whole.samples), round(end * whole.samples))
                    segments.append(Segment(piece, index, part, machine=specimen))
        return segments

    def cut(self, library: Library, state: str, cut: SegmentSelection, *, run: str, specimen: int) -> Recording:
        """Cut one segment or stage out of one run of a state."""
        recording = library.get(state, run, severity=self.severity_of(state), specimen=specimen)
        if recording.sample_rate != self.sample_rate:
            raise DataError(
                f"{recording.source}: {recording.sample_rate:g} Hz; "
                f"scenario {self.name} expects {self.sample_rate:g} Hz"
            )
        for name in self.condition_names:
            if name not in recording.conditions:
                raise DataError(f"{recording.source}: no trace of {name!r} to cut {cut.name} by")
        begin, end = find_segment(recording, self.conditions, cut)
        begin, end = (begin + round(share * (end - begin)) for share in cut.part)
        return recording.cut(begin, end).select(self.channels).require_finite()


def builtin_scenarios() -> dict[str, Path]:
    """Return the scenario files that come with cgsa, by name."""
    return builtin_files("scenarios")


def check_no_leak(trained: Iterable[Interval], streamed: Iterable[Interval]) -> None:
    """Fail where a raw sample stands on both sides of the split."""
    before = list(trained)
    for source, begin, end in streamed:
        for known, first, last in before:
            if known == source and max(begin, first) < min(end, last):
                raise LeakError(
                    f"{source}: samples {max(begin, first)} to {min(end, last)} were trained on and stand in the "
                    f"stream too; cut the offline segments and online stages apart"
                )


def find_segment(recording: Recording, conditions: Sequence[Condition], cut: SegmentSelection) -> tuple[int, int]:
    """Return the first and last-plus-one sample of what ``cut`` asks for."""
    asked = [condition for condition, _ in (*cut.levels(conditions), *cut.ramps(conditions))]
    width = round(SMOOTHING_SECONDS * recording.sample_rate)
    smooth = {condition.name: _smooth(recording.conditions[condition.name], width) for condition in asked}
    wanted = recording.samples if cut.seconds is None else round(cut.seconds * recording.sample_rate)
    stretches: list[tuple[int, int]] = []
    for stretches in _candidates(smooth, recording.sample_rate, conditions, cut):
        enough = [(begin, begin + wanted) for begin, end in stretches if end - begin >= wanted]
        if enough:
            return enough[0]
    if not stretches:
        what = "stretch at" if cut.ramp is None else "rise over"
        measured = ", ".join(
            f"measured {condition.name} goes from {smooth[condition.name].min():.2f} to "
            f"{smooth[condition.name].max():.2f} {condition.unit}"
            for condition in asked
        )
        raise DataError(f"{recording.source}: no {what} {cut.describe(conditions)} for {cut.name}; {measured}")
    return max(stretches, key=lambda stretch: stretch[1] - stretch[0])


def _candidates(
    smooth: Mapping[str, npt.NDArray[np.float64]], rate: float, conditions: Sequence[Condition], cut: SegmentSelection
) -> Iterator[list[tuple[int, int]]]:
    """Yield the stretches that fit: strictly first, then within what a brake's level is off by."""
    for condition, (low, high) in cut.ramps(conditions):
        yield _rises(smooth[condition.name], low + condition.tolerance, high - condition.tolerance)
    levels = cut.levels(conditions)
    for error in (0.0, LEVEL_ERROR) if levels else ():
        near = [
            np.abs(smooth[condition.name] - level) <= max(condition.tolerance, error * abs(level))
            for condition, level in levels
        ]
        held = _true_stretches(np.logical_and.reduce(near))
        # A rise through a level counts as a short stretch at it: only what is held for a second is a level.
        yield [(begin, end) for begin, end in held if end - begin >= rate]


def _by_condition(
    given: T | Mapping[str, T] | None, conditions: Sequence[Condition], what: str
) -> list[tuple[Condition, T]]:
    """Return what is given for each condition; nothing for those that are not named."""
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


def _smooth(trace: npt.NDArray[np.float32], width: int) -> npt.NDArray[np.float64]:
    width = max(1, min(width, len(trace)))
    padded = np.pad(trace.astype(np.float64), (width // 2, width - 1 - width // 2), mode="edge")
    total = np.concatenate([[0.0], np.cumsum(padded)])
    return np.asarray((total[width:] - total[:-width]) / width)


def _true_stretches(mask: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [(int(begin), int(end)) for begin, end in edges.reshape(-1, 2)]


def _rises(smooth: npt.NDArray[np.float64], low: float, high: float) -> list[tuple[int, int]]:
    """Return each stretch from the last sample at or below ``low`` to the first at or above ``high``."""
    marks = np.where(smooth >= high, 1, np.where(smooth <= low, -1, 0))
    places = np.flatnonzero(marks)
    turns = np.flatnonzero((marks[places[:-1]] == -1) & (marks[places[1:]] == 1))
    return [(int(places[turn]), int(places[turn + 1]) + 1) for turn in turns]
