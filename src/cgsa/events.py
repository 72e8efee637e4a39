"""Events: what a running diagnosis tells the world, one line of JSON each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import ClassVar, Literal, TypeAlias

NO_DATA = "no data"
"""Verdict where nothing could be believed, and name of the fault that a silent sensor is."""

Severity: TypeAlias = Literal["low", "medium", "high"]
CaseState: TypeAlias = Literal["raised", "acknowledged", "cleared", "closed"]
Change: TypeAlias = Literal[
    "opened", "reopened", "raised", "joined", "acknowledged", "cleared", "shelved", "unshelved", "closed"
]


@dataclass(frozen=True)
class Event:
    """What all events share."""

    kind: ClassVar[str]
    version: ClassVar[int]

    def to_json(self) -> str:
        """Return the event as one line."""
        return json.dumps({"event": self.kind, "version": self.version, **asdict(self)})


@dataclass(frozen=True)
class Trust:
    """How far to trust what was said of a batch; no label is needed for it."""

    agreement: float | None
    """Share of the windows of which the frozen source model says the same; none where nobody asked it."""
    coverage: float | None
    """Share that lies where training was; none where the model does not know where that is."""
    accuracy: float | None
    """Estimated share that is right."""
    note: str
    """Whether the method learns, in words."""


@dataclass(frozen=True)
class Diagnosis(Event):
    """What was seen in one batch of windows."""

    kind: ClassVar[str] = "diagnosis"
    version: ClassVar[int] = 1

    batch: int
    """Number of the batch in the stream, from 0."""
    source: str
    """Recording that the batch ends in."""
    begin: float
    """Second at which its first window begins, counted along the stream."""
    end: float
    """Second at which its last window ends."""
    windows: int
    verdict: str
    """The class with the highest mean probability."""
    probabilities: dict[str, float]
    """Mean probability of each class."""
    accepted: int | None
    """Windows that were learnt from; none where the method never learns."""
    deviation: float | None
    """Mean deviation of the residual response; none while the queue warms up or where there is none."""
    state: str | None = None
    """What the windows say at the end of the batch, joined over time; none where nothing joins them."""
    alarm: str | None = None
    """The fault that an alarm tells of at the end of the batch; none where no alarm stands."""
    trust: Trust | None = None
    """None where nothing joins the windows."""
    flagged: Mapping[str, int] = field(default_factory=dict)
    """Windows that were not believed, by reason; all else is told of the others."""


@dataclass(frozen=True)
class Case:
    """All alarms of one trouble of a machine, from the first until it is over and somebody has seen it."""

    number: int
    """Cases of a machine count from 1."""
    state: CaseState
    severity: Severity
    """The highest it ever had."""
    fault: str
    """The gravest of its faults, and among equals the newest."""
    faults: tuple[str, ...]
    """All that it was raised for, in the order in which they came."""
    opened: float
    changed: float
    closed: float | None = None
    """None while it is open."""
    raised: int = 1
    """How often an alarm of it was raised..."""
    notified: int = 0
    """...and how often somebody was called for it."""
    acknowledged_by: str | None = None
    """None while nobody has answered for what it tells of."""
    shelved_until: float | None = None
    """Until then it calls nobody; none where it is not shelved."""

    @property
    def active(self) -> bool:
        """Whether its alarm stands."""
        return self.state in {"raised", "acknowledged"}

    @property
    def open(self) -> bool:
        """Whether it still asks for something."""
        return self.state != "closed"


@dataclass(frozen=True)
class AlarmChange(Event):
    """Something that happened to a case."""

    kind: ClassVar[str] = "alarm"
    version: ClassVar[int] = 1

    machine: str
    time: float
    change: Change
    fault: str
    """What it is about: in a case of several faults not always the gravest."""
    notify: bool
    """Whether somebody should be called for it."""
    case: Case
    """The case after it."""
    who: str | None = None
    """None where the machine did it."""
    text: str = ""
    """What the person said."""


@dataclass(frozen=True)
class Comment(Event):
    """What a person has to say of a case."""

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
    """What a machine really had, as a person found it; later trainings learn from it."""

    kind: ClassVar[str] = "label"
    version: ClassVar[int] = 1

    machine: str
    time: float
    """When it was said."""
    who: str
    state: str
    """The class: healthy, a fault that the model knows, or any other."""
    begin: float
    """From this second of the stream..."""
    end: float
    """...to this one."""
    case: int | None = None
    """Number of the case that was open when it was said."""


@dataclass(frozen=True)
class Note(Event):
    """Something beside diagnoses and alarms that a person may want to know of later."""

    kind: ClassVar[str] = "note"
    version: ClassVar[int] = 1

    machine: str
    time: float
    topic: str
    """A word to find it by, such as ``gap`` or ``learning frozen``."""
    text: str
    details: Mapping[str, object] = field(default_factory=dict)
    """The figures of it, as JSON has them."""
