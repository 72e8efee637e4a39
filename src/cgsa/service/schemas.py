"""What goes over the API besides the events and the rows of the store, which describe themselves.

Routes answer with the dataclasses of events and store where they can; their fields and docstrings become the
description of the API. Here are the answers that collect or select from them, and strict forms for what comes in.
Numbers that JSON does not know (NaN and infinities) become ``null``.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from cgsa.events import AlarmChange, Case, Comment, CommissioningStatus, Diagnosis, Label, Operation
from cgsa.live.alarms import MAX_TEXT
from cgsa.live.intake.block import MAX_NAME, MAX_TIME
from cgsa.live.intake.refusals import Refusal
from cgsa.live.intermittent import Measurements
from cgsa.live.refused_run import RefusedRun
from cgsa.live.retries import Problem
from cgsa.live.store import DeliveryState, Repeats
from cgsa.live.watch import WatchCounts
from cgsa.live.worker_status import WorkState
from cgsa.service.auth import MAX_LIFETIME, MAX_OVERLAP, NAME
from cgsa.service.comparison import Difference
from cgsa.service.links.link import LinkState
from cgsa.service.maintenance import MAX_REASON
from cgsa.service.rights import MACHINES, MAX_PATTERNS, Role
from cgsa.service.sinks.delivery_log import NotificationSummary

Time: TypeAlias = Annotated[float, Field(ge=0, lt=MAX_TIME, allow_inf_nan=False)]
"""Seconds since 1970, by the clock of the stream."""
Text: TypeAlias = Annotated[str, Field(max_length=MAX_TEXT)]
MACHINE = r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$"
"""Pattern of the name of a machine."""
MAX_BULK = 200
"""Cases per command about several."""
Lifetime: TypeAlias = Annotated[float | None, Field(gt=0, le=MAX_LIFETIME, allow_inf_nan=False)]
"""Seconds until a token expires; null for never or, of a rotated token, for its present expiry."""
RequiredText: TypeAlias = Annotated[str, Field(min_length=1, max_length=MAX_TEXT, pattern=r"\S")]


class Answer(BaseModel):
    """Base of the answers."""

    model_config = ConfigDict(
        from_attributes=True,
        frozen=True,
        json_schema_serialization_defaults_required=True,
        use_attribute_docstrings=True,
    )


class ErrorDetail(Answer):
    """What went wrong."""

    kind: str
    """A keyword for programs, such as ``not found``."""
    message: str
    """What is wrong, where, and what is expected."""
    where: str | None
    """The part of the request, such as ``body.seconds``; null if the error does not concern one part."""


class ErrorAnswer(Answer):
    """The shape of every error."""

    error: ErrorDetail


class Delivery(Answer):
    """What became of a notification to one sink; times are of the wall clock."""

    sink: str
    time: float
    """When the sink was asked to deliver it."""
    state: DeliveryState
    """``held`` until a maintenance ends, ``notifying``, ``delivered``, ``failed`` or ``withdrawn``."""
    attempts: int
    """Attempts that failed."""
    error: str
    """The last failure; empty if there was none."""
    reason: str
    """Why it was sent to this sink, if that is not the first: the escalation, or the end of a maintenance."""
    finished: float | None
    """When it was delivered, given up or withdrawn; null before."""


class ListedCase(Answer):
    """A case in a list."""

    machine: str
    case: Case
    notification: NotificationSummary


class SnippetInfo(Answer):
    """A waveform around an alarm, without its samples."""

    time: float
    """Time of the first sample; the waveform is requested by it."""
    sample_rate: float
    channels: tuple[str, ...]
    count: int
    """Samples per channel."""


class Waveform(SnippetInfo):
    """A waveform around an alarm."""

    samples: list[list[float | None]]
    """A list per channel; null if a sample is not a number."""


class CaseDetails(Answer):
    """A case with its history, newest first; only the newest entries of each kind."""

    machine: str
    case: Case
    changes: tuple[AlarmChange, ...]
    comments: tuple[Comment, ...]
    labels: tuple[Label, ...]
    snippets: tuple[SnippetInfo, ...]
    notification: NotificationSummary
    """What became of the newest notification."""
    deliveries: tuple[Delivery, ...]
    """What became of each notification, by sink."""


class BulkOutcome(Answer):
    """What became of a command about one of several cases."""

    machine: str
    case: int
    done: bool
    """Whether it has been carried out."""
    refused: str | None
    """Why it was refused; null if it was not, so that one that is not done yet will be carried out in its turn."""


class BulkResult(Answer):
    """What became of a command about several cases, in their order."""

    results: tuple[BulkOutcome, ...]


class MaintenanceInfo(Answer):
    """A time in which people work on machines, so that alarms are recorded but notify nobody."""

    number: int
    machines: tuple[str, ...]
    """Names or patterns."""
    begin: float
    end: float
    """Of the first time, if it repeats."""
    repeats: Repeats
    zone: str
    """Time zone in which it repeats at the same time of day."""
    who: str
    reason: str
    created: float
    ended: float | None
    """When a person ended it early, for good; null if nobody did."""
    ended_by: str | None
    now: bool
    """Whether it lasts now."""
    next_begin: float | None
    """Begin of the present or next time; null if none is left."""
    next_end: float | None


class MaintenanceList(Answer):
    """Maintenance windows, the newest first."""

    maintenance: tuple[MaintenanceInfo, ...]


class SinkInfo(Answer):
    """A receiver of alarms."""

    name: str
    kind: str
    state: LinkState
    since: float
    why: str
    """The last failure, if it is down."""
    note: str
    """The last problem that did not end the connection."""
    waiting: int
    """Notifications that it has not delivered yet."""
    step: int | None
    """Its place in the escalation, from 1; null if it is not part of it."""


class Sinks(Answer):
    """The receivers of alarms."""

    sinks: tuple[SinkInfo, ...]


class MachineStatus(Answer):
    """Status of a machine and of its monitoring."""

    machine: str
    standing: str
    """Status of its alarms."""
    case: Case | None
    """The open case; null if there is none."""
    diagnosis: Diagnosis | None
    """The newest; null before the first."""
    learning: str
    """``learning``, ``frozen``, ``shed`` or ``catching up``."""
    waiting: float
    """Seconds of signal waiting to be diagnosed."""
    refused: int
    """Blocks refused because too many were waiting, or because the journal could not be written."""
    counts: WatchCounts
    now: float | None
    """Stream time."""
    problem: str | None
    """What needs attention; null if nothing does."""
    work: WorkState
    """Whether the machine is monitored: ``working``, ``catching up``, ``retrying`` or ``stopped``."""
    problems: tuple[Problem, ...]
    """What fails at present and is tried again."""
    commissioning: CommissioningStatus | None
    """Whether the machine is known to have been healthy at the start; null if the method needs no commissioning."""
    operation: Operation | None
    """Whether the machine runs or is off, and its run time; null if that is unknown."""
    measurements: Measurements | None
    """When the machine was measured and will be; null if it is measured all the time."""
    last_refused: Refusal | None
    """The newest data that were refused or are missing; null if there are none."""
    refused_run: RefusedRun | None
    """The blocks refused since the last one in use; null if that was the newest."""
    clock_skew: float | None
    """Seconds by which the clock of the sender is ahead, less the time that blocks travel; null before the first."""
    method: str
    classes: tuple[str, ...]
    channels: tuple[str, ...]
    sample_rate: float


class Machines(Answer):
    """All machines, the most urgent first."""

    machines: tuple[MachineStatus, ...]


class StateInfo(Answer):
    """A saved state of a machine's watch that it can be rolled back to."""

    number: int
    position: int
    """First record of the journal that the state has not seen."""
    time: float
    bytes: int
    sha256: str
    """Of its tensors."""


class States(Answer):
    """States, oldest first."""

    states: tuple[StateInfo, ...]


class StateDifferences(Answer):
    """Differences between two states; equal tensors are left out."""

    before: int
    after: int
    tensors: int
    """Number of all tensors."""
    differences: tuple[Difference, ...]


class LedgerInterval(Answer):
    """Windows of a time interval: columns by name, with one value per window."""

    machine: str
    begin: float
    end: float
    windows: int
    columns: dict[str, list[float | int | bool | str | None]]


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
    """By how much it is above the healthy reference."""
    name: str | None
    """What of the machine has such a line; null if nothing does."""


class SpectrumInfo(Answer):
    """The spectrum of one channel beside that of the healthy machine."""

    channel: str
    frequency: list[float]
    now: list[float]
    """Amplitudes, in the unit of the channel; of an envelope, relative to its mean."""
    healthy: list[float] | None
    """The highest of the healthy reference; null without one."""


class ComparisonInfo(Answer):
    """The newest signal of a machine compared with its healthy reference."""

    machine: str
    time: float
    """Of the first sample, in seconds of the stream."""
    seconds: float
    reference: str
    """What it is compared with."""
    sentences: list[str]
    """What stands out, most telling first."""
    peaks: list[ChangedPeakInfo]
    bands: list[ChangedBand]
    """Largest change first; empty without a reference."""
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


class TokenInfo(Answer):
    """A token, without its secret."""

    name: str
    role: str
    created: float
    last_used: float | None
    revoked: float | None
    """Null unless the token was revoked."""
    machines: tuple[str, ...]
    """Names or patterns of the machines that the token is valid for; empty for all machines."""
    expires: float | None
    """Null if the token never expires."""
    previous_until: float | None
    """Until when the secret before the last rotation is valid; null if the token was never rotated."""


class Tokens(Answer):
    """All tokens, valid or revoked."""

    tokens: tuple[TokenInfo, ...]


class IssuedToken(Answer):
    """A new token; its secret is shown only once."""

    name: str
    role: str
    token: str


class IntakeStatus(Answer):
    """How the blocks of a machine are received, for whoever sends them."""

    machine: str
    now: float | None
    """Stream time of the newest sample; null before the first block."""
    waiting: float
    """Seconds of signal that wait to be diagnosed."""
    problem: str | None
    """Why the machine is not diagnosed as it should be; null if all is well."""
    last_refused: Refusal | None
    """The newest data that were refused or are missing; null if there are none."""


class AcceptedBlock(Answer):
    """A block is in its machine's journal."""

    machine: str
    position: int
    last_refused: Refusal | None
    """The newest data that were refused or are missing, such as an earlier block; null if there are none."""


class CommandResult(Answer):
    """Result of a command."""

    done: bool
    """Whether the command has been carried out; if not, it is in the journal and will be carried out in its turn."""


class Health(Answer):
    """The process is alive."""

    alive: Literal[True] = True
    version: str


class MachineReadiness(Answer):
    """Whether one machine is monitored."""

    machine: str
    work: WorkState
    problem: str | None
    """What needs attention; null if nothing does."""
    problems: tuple[Problem, ...]
    """What fails at present and is tried again."""


class Readiness(Answer):
    """Whether the service is ready."""

    ready: bool
    reasons: tuple[str, ...]
    """Why it is not ready, without names."""
    machines: tuple[MachineReadiness, ...]
    """The machines; empty for requests without a token."""


class Form(BaseModel):
    """Base of request bodies; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)


class RemarkForm(Form):
    """An optional remark with a command."""

    text: Text = ""


class CommentForm(Form):
    """A comment."""

    text: RequiredText


class ShelveForm(Form):
    """For how long a case sends no notifications, and why."""

    seconds: float = Field(gt=0, le=31 * 86_400, allow_inf_nan=False)
    text: RequiredText


class CaseReference(Form):
    """A case that a person saw."""

    machine: str = Field(max_length=MAX_NAME, pattern=MACHINE)
    case: int = Field(ge=1, lt=2**31)
    """Its number; if the machine has a newer case, the command is refused for this machine."""


class BulkForm(Form):
    """Cases to acknowledge."""

    cases: list[CaseReference] = Field(min_length=1, max_length=MAX_BULK)
    text: Text = ""


class BulkShelveForm(BulkForm):
    """Cases to shelve."""

    seconds: float = Field(gt=0, le=31 * 86_400, allow_inf_nan=False)
    text: RequiredText


class MaintenanceForm(Form):
    """A time in which people work on machines."""

    machines: list[Annotated[str, Field(max_length=64, pattern=f"^{MACHINES}$")]] = Field(
        min_length=1, max_length=MAX_PATTERNS
    )
    """Names or patterns (``*``, ``?``)."""
    begin: Time | None = None
    """Null for now."""
    end: Time
    reason: str = Field(min_length=1, max_length=MAX_REASON, pattern=r"\S")
    repeats: Repeats = "once"
    zone: str = Field(default="UTC", max_length=64)
    """Time zone in which it repeats at the same time of day, such as ``Europe/Berlin``."""


class LabelForm(Form):
    """The true state of a machine in a time interval."""

    state: str = Field(min_length=1, max_length=200, pattern=r"\S")
    begin: Time
    end: Time


class CommissionForm(Form):
    """A new commissioning, such as after a repair."""

    healthy: bool
    """Whether the machine is known to be healthy now; if not, a question follows where the model disagrees."""
    text: Text = ""


class ReferenceForm(Form):
    """An interval of the recent history in which the machine was healthy."""

    begin: Time
    end: Time
    text: Text = ""


class TokenForm(Form):
    """A token to create."""

    name: str = Field(min_length=1, max_length=64, pattern=f"^{NAME}$")
    role: Role
    machines: list[Annotated[str, Field(max_length=64, pattern=f"^{MACHINES}$")]] = Field(
        default=[], max_length=MAX_PATTERNS
    )
    """Names or patterns (``*``, ``?``) of the machines that the token is valid for; empty for all machines."""
    lifetime: Lifetime = None


class RotationForm(Form):
    """A new secret for a token."""

    overlap: float = Field(default=0.0, ge=0, le=MAX_OVERLAP, allow_inf_nan=False)
    """Seconds in which the present secret stays valid."""
    lifetime: Lifetime = None
