"""What goes over the API about alarms, notifications and maintenance."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cgsa.events import AlarmChange, Case, Comment, Label
from cgsa.live.intake.block import MAX_NAME
from cgsa.live.store import DeliveryState, Repeats
from cgsa.service.links.link import LinkState
from cgsa.service.maintenance import MAX_REASON
from cgsa.service.rights import MACHINES, MAX_PATTERNS
from cgsa.service.schemas import MACHINE, Answer, Form, RequiredText, Text, Time
from cgsa.service.sinks.delivery_log import NotificationSummary

MAX_BULK = 200
"""Cases per command about several."""


class DeliveryInfo(Answer):
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
    deliveries: tuple[DeliveryInfo, ...]
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
