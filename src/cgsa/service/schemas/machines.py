"""What is told of machines."""

from __future__ import annotations

from cgsa.events import CaseState, Change, Severity
from cgsa.service.schemas.base import Answer, Details, Number


class Trust(Answer):
    """How far to trust what was said of a batch."""

    agreement: Number
    """Share of the windows of which the frozen source model says the same."""
    coverage: Number
    """Share that lies where training was."""
    accuracy: Number
    """Estimated share that is right."""
    note: str
    """Whether the method learns, in words."""


class Diagnosis(Answer):
    """What was seen in one batch of windows."""

    batch: int
    source: str
    begin: float
    end: float
    windows: int
    verdict: str
    probabilities: dict[str, Number]
    accepted: int | None
    """Windows that were learnt from."""
    deviation: Number
    state: str | None
    """What the windows say at the end of the batch, joined over time."""
    alarm: str | None
    trust: Trust | None
    flagged: dict[str, int]
    """Windows that were not believed, by reason; known of live diagnoses alone."""


class Told(Answer):
    """The diagnosis of a batch as it was stored."""

    machine: str
    diagnosis: Diagnosis
    flagged: int
    """Windows that were not believed."""
    response: Number
    """Mean residual response."""


class Note(Answer):
    """Something that a person may want to know of later."""

    machine: str
    time: float
    topic: str
    text: str
    details: Details


class Case(Answer):
    """All alarms of one trouble of a machine."""

    number: int
    state: CaseState
    severity: Severity
    fault: str
    faults: tuple[str, ...]
    opened: float
    changed: float
    closed: float | None
    raised: int
    notified: int
    acknowledged_by: str | None
    shelved_until: float | None


class MachineCase(Answer):
    """A case, and whose it is."""

    machine: str
    case: Case


class AlarmChange(Answer):
    """Something that happened to a case."""

    machine: str
    time: float
    change: Change
    fault: str
    notify: bool
    case: Case
    who: str | None
    text: str


class Comment(Answer):
    """What a person said of a case."""

    machine: str
    time: float
    case: int
    who: str
    text: str


class Label(Answer):
    """What a machine really had, as a person found it."""

    machine: str
    time: float
    who: str
    state: str
    begin: float
    end: float
    case: int | None


class SnippetInfo(Answer):
    """A waveform around an alarm, without its samples."""

    time: float
    """Second at which it begins; it is asked for by this."""
    sample_rate: float
    channels: tuple[str, ...]
    count: int
    """Samples a channel."""


class Waveform(SnippetInfo):
    """A waveform around an alarm."""

    samples: list[list[float | None]]
    """A list a channel; null where a sample is not a number."""


class CaseFile(Answer):
    """A case with all that belongs to it, the newest first; of each kind the newest few."""

    machine: str
    case: Case
    changes: tuple[AlarmChange, ...]
    comments: tuple[Comment, ...]
    labels: tuple[Label, ...]
    snippets: tuple[SnippetInfo, ...]


class Counts(Answer):
    """What a watch has seen so far."""

    blocks: int
    refused_blocks: int
    gaps: int
    batches: int
    windows: int
    flagged: int
    learnt: int
    shed: int


class Machine(Answer):
    """How a machine and its watch stand."""

    machine: str
    standing: str
    """Of its alarms, in a word."""
    case: Case | None
    """The open case; null where there is none."""
    diagnosis: Diagnosis | None
    learning: str
    """``learning``, ``frozen``, ``shed`` or ``catching up``."""
    waiting: float
    """Seconds of signal that wait to be diagnosed."""
    refused: int
    """Blocks that were refused because too many waited."""
    counts: Counts
    now: Number
    """Stream time."""
    problem: str | None
    method: str
    classes: tuple[str, ...]
    channels: tuple[str, ...]
    sample_rate: float


class Machines(Answer):
    """All machines, the one to look at first being the first."""

    machines: tuple[Machine, ...]


class State(Answer):
    """A state of a watch that can be gone back to."""

    number: int
    position: int
    time: float
    bytes: int
    sha256: str


class States(Answer):
    """States, the oldest first."""

    states: tuple[State, ...]


class Difference(Answer):
    """How a tensor differs between two states."""

    name: str
    shape: tuple[int, ...]
    changed: int
    """Numbers that differ."""
    relative: Number
    """Length of the difference by the length of what it was before; null where that was 0, or its shape another."""
    largest: Number
    """The largest difference of one number."""


class Differences(Answer):
    """What differs between two states: tensors that are the same are left out."""

    before: int
    after: int
    tensors: int
    """How many there are in all."""
    differences: tuple[Difference, ...]


class Ledger(Answer):
    """Windows of a time span: columns by their names, one value a window."""

    machine: str
    begin: float
    end: float
    windows: int
    columns: dict[str, list[float | int | bool | str | None]]
