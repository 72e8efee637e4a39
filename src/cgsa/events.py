"""Events: what a running diagnosis reports.

These dataclasses are the one place where the fields of an event are written. The API describes and answers with them,
the store keeps a column per field, and logs and streams carry them as one line of JSON each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import ClassVar, Literal, TypeAlias

NO_DATA = "no data"
"""Verdict if the quality gate accepts no window, and the name of the fault that a silent sensor is."""
REFUSED = "data refused"
"""Name of the fault that the blocks of a sender are refused, so that nobody watches the machine."""
OFF = "off"
"""Verdict while the machine stands still: it is neither healthy nor faulty."""

Severity: TypeAlias = Literal["low", "medium", "high"]
CaseState: TypeAlias = Literal["raised", "acknowledged", "cleared", "closed"]
Change: TypeAlias = Literal[
    "opened", "reopened", "raised", "joined", "acknowledged", "cleared", "shelved", "unshelved", "closed"
]


CommissioningState: TypeAlias = Literal["waiting", "question", "done", "faulty", "withdrawn"]
"""How far the commissioning of a machine is:

- ``waiting``: a healthy start is being observed, or a cause prevents that;
- ``question``: the observed start does not look healthy, and a person is asked;
- ``done``: the start is known to be healthy, with or without a reference of the machine;
- ``faulty``: a person marked the machine as faulty; it has no reference;
- ``withdrawn``: a person took the reference back.
"""
WaitCause: TypeAlias = Literal["standstill", "outside training", "sensor fault", "not steady"]
"""Why a healthy start cannot be observed now."""
LevelQuantity: TypeAlias = Literal["rms", "peak", "velocity"]
"""What is measured of a channel: RMS and peak about the mean, in its unit, and the velocity RMS within a band."""
LevelState: TypeAlias = Literal["normal", "warning", "alarm"]
OperationState: TypeAlias = Literal["running", "off"]


@dataclass(frozen=True)
class Event:
    """Base of all events."""

    kind: ClassVar[str]
    version: ClassVar[int]

    def to_json(self) -> str:
        """Return the event as one line."""
        return json.dumps({"event": self.kind, "version": self.version, **asdict(self)})


@dataclass(frozen=True)
class Trust:
    """How far to trust the diagnosis of a batch; computed without labels."""

    agreement: float | None
    """Share of windows on which the frozen source model agrees; null if it was not run."""
    coverage: float | None
    """Share of windows within the range of the training data; null if the model does not know that range."""
    accuracy: float | None
    """Estimated share of correct diagnoses."""
    note: str
    """Whether the method is learning, as text."""


@dataclass(frozen=True)
class CommissioningStatus:
    """Whether the machine is known to have been healthy, and has a reference of its own."""

    state: CommissioningState
    cause: WaitCause | None
    """Why it waits; null while the start is being observed, and in any other state."""
    text: str
    """The state as a sentence: why it waits, what it asks, or what was decided."""
    observed: float
    """Share of the healthy start that has been observed."""
    reference: bool
    """Whether a reference of the machine is in use; if not, that of the training is."""


@dataclass(frozen=True)
class ChannelLevels:
    """Levels of one channel over a batch, to five digits."""

    channel: str
    unit: str
    rms: float | None
    """RMS about the mean; null if a sensor fault left nothing to measure."""
    peak: float | None
    """Largest distance from the mean."""
    velocity: float | None
    """RMS within the band, in mm/s; null if the channel measures no vibration."""


@dataclass(frozen=True)
class LimitedLevel:
    """A level that has limits."""

    channel: str
    quantity: LevelQuantity
    value: float | None
    unit: str
    warning: float | None
    """Null if there is no such limit."""
    alarm: float | None
    state: LevelState
    """The highest limit that has been exceeded for long enough."""


@dataclass(frozen=True)
class LevelTrend:
    """A level that rises."""

    channel: str
    quantity: LevelQuantity
    unit: str
    per_day: float
    """By how much it rises in a day."""
    limit: float | None
    """The next limit; null if the level does not reach one soon."""
    seconds: float | None
    """Time until it reaches that limit."""
    text: str
    """The trend as a sentence."""


@dataclass(frozen=True)
class LevelReport:
    """What was measured of a batch beside the model."""

    channels: tuple[ChannelLevels, ...]
    limits: tuple[LimitedLevel, ...] = ()
    """Levels with limits."""
    trends: tuple[LevelTrend, ...] = ()
    """Levels that rise."""
    band: tuple[float, float] | None = None
    """Frequencies of the velocity in Hz; null if no channel has one."""
    note: str | None = None
    """Why a level or limit is missing or restricted; null if none is."""


@dataclass(frozen=True)
class ChangedLine:
    """A spectral line that rose or fell against the healthy reference."""

    channel: str
    frequency: float
    """In Hz."""
    decibels: float
    """Positive if it rose."""
    envelope: bool
    """Whether it is a line of the envelope of the channel, which shows how often impacts come."""

    @property
    def text(self) -> str:
        """Such as ``gearbox_vibration_z: 183 Hz line +14 dB``."""
        where = "envelope, " if self.envelope else ""
        return f"{self.channel}: {where}{self.frequency:.4g} Hz line {self.decibels:+.0f} dB"


@dataclass(frozen=True)
class ChangeReport:
    """How far a machine is from its healthy state, by a model that was trained on healthy recordings alone."""

    score: float
    """Distance from the healthy state, smoothed over time; 1 is the limit."""
    per_hour: float | None
    """Trend of the score per hour, robust against single outliers; null until enough time has passed."""
    lines: tuple[ChangedLine, ...] = ()
    """What changed most, largest first; empty while the score is far below the limit."""
    label: str | None = None
    """The labelled state that a changed machine resembles most; null without labels, or if it is not changed."""
    probability: float | None = None
    """Probability of that state among the labelled ones and none of them."""

    @property
    def text(self) -> str:
        """The report as a sentence."""
        trend = "" if self.per_hour is None else f", {self.per_hour:+.2g} per hour"
        like = "" if self.label is None else f"; like {self.label} ({self.probability:.0%})"
        what = "".join(f"; {line.text}" for line in self.lines)
        return f"score {self.score:.2f} of limit 1{trend}{like}{what}"


@dataclass(frozen=True)
class Operation:
    """Whether the machine runs, by the levels of its signal."""

    state: OperationState
    """``off`` at standstill, far below the levels of every training recording."""
    since: float | None
    """Since when, in seconds of the stream; null if it has not changed since the watch began."""
    run_seconds: float
    """How long it has run in total since the watch began."""


@dataclass(frozen=True)
class Diagnosis(Event):
    """Diagnosis of one batch of windows."""

    kind: ClassVar[str] = "diagnosis"
    version: ClassVar[int] = 1

    batch: int
    """Number of the batch in the stream, from 0."""
    source: str
    """Recording in which the batch ends."""
    begin: float
    """Start of its first window, in seconds of the stream."""
    end: float
    """End of its last window, in seconds of the stream."""
    windows: int
    verdict: str
    """The class with the highest mean probability."""
    probabilities: dict[str, float]
    """Mean probability of each class; null in JSON if not a number."""
    accepted: int | None
    """Windows used for adaptation; null if the method never adapts."""
    deviation: float | None
    """Mean deviation of the residual response; null while the queue warms up or if the method has none."""
    state: str | None = None
    """State at the end of the batch, joined over time; null if the windows are not joined."""
    alarm: str | None = None
    """Fault whose alarm is active at the end of the batch; null if no alarm is active."""
    trust: Trust | None = None
    """Null if the windows are not joined over time."""
    flagged: Mapping[str, int] = field(default_factory=dict)
    """Windows that were not diagnosed, by reason: rejected by the quality gate, or at standstill (``machine off``); all
    other fields describe the remaining windows."""
    sensor_question: str | None = None
    """What to check, since most windows do not look like the machine; null if they do, or if the model cannot say."""
    commissioning: CommissioningStatus | None = None
    """At the end of the batch; null if the method needs no commissioning."""
    levels: LevelReport | None = None
    """Levels of the channels, their limits and trends; null where only windows are diagnosed."""
    change: ChangeReport | None = None
    """At the end of the batch; null unless the model was trained on healthy recordings alone."""
    operation: Operation | None = None
    """At the end of the batch; null if the model does not know the levels of a running machine."""

    @property
    def nearest_fault(self) -> tuple[str, float] | None:
        """The most likely of the known faults and its mean probability, if the state is none that the model knows."""
        faults = list(self.probabilities.items())[1:]
        if self.state is None or self.state in self.probabilities or not faults:
            return None
        return max(faults, key=lambda fault: fault[1])


@dataclass(frozen=True)
class Case:
    """All alarms of one fault of a machine, from the first until it is over and a person has seen it."""

    number: int
    """Cases of a machine count from 1."""
    state: CaseState
    severity: Severity
    """The highest so far."""
    fault: str
    """The most severe of its faults; the newest if several are equally severe."""
    faults: tuple[str, ...]
    """All faults for which it was raised, in order of appearance."""
    opened: float
    changed: float
    closed: float | None = None
    """Null while it is open."""
    raised: int = 1
    """Number of alarms raised."""
    notified: int = 0
    """Number of notifications asked for; the service knows which of them were delivered."""
    acknowledged_by: str | None = None
    """Null until a person acknowledges it."""
    shelved_until: float | None = None
    """Until this time no notification is sent; null if the case is not shelved."""

    @property
    def active(self) -> bool:
        """Whether its alarm is active."""
        return self.state in {"raised", "acknowledged"}

    @property
    def open(self) -> bool:
        """Whether it is not closed yet."""
        return self.state != "closed"


@dataclass(frozen=True)
class AlarmChange(Event):
    """A change of a case."""

    kind: ClassVar[str] = "alarm"
    version: ClassVar[int] = 1

    machine: str
    time: float
    change: Change
    fault: str
    """The fault that changed; not necessarily the most severe one of the case."""
    notify: bool
    """Whether to send a notification."""
    case: Case
    """The case after the change."""
    who: str | None = None
    """The person who made the change; null if it follows from the data."""
    text: str = ""
    """The person's remark; or the value and limit of a level."""


@dataclass(frozen=True)
class Comment(Event):
    """A person's comment on a case."""

    kind: ClassVar[str] = "comment"
    version: ClassVar[int] = 1

    machine: str
    time: float
    case: int
    """Number of the case."""
    who: str
    text: str


@dataclass(frozen=True)
class Label(Event):
    """The true state of a machine as found by a person; later trainings learn from it."""

    kind: ClassVar[str] = "label"
    version: ClassVar[int] = 1

    machine: str
    time: float
    """When the label was given."""
    who: str
    state: str
    """The class: healthy, a fault that the model knows, or any other."""
    begin: float
    """Start of the labelled interval, in seconds of the stream."""
    end: float
    """End of the labelled interval."""
    case: int | None = None
    """Number of the case that was open when the label was given."""


@dataclass(frozen=True)
class Note(Event):
    """Anything else worth keeping, such as a gap in the data or a change of the learning."""

    kind: ClassVar[str] = "note"
    version: ClassVar[int] = 1

    machine: str
    time: float
    topic: str
    """A keyword for searching, such as ``gap`` or ``learning frozen``."""
    text: str
    details: Mapping[str, object] = field(default_factory=dict)
    """Its figures, as JSON values."""
