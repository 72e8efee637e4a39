"""What goes over the API besides the events and the rows of the store, which describe themselves.

Routes answer with the dataclasses of events and store where they can; their fields and docstrings become the
description of the API. Here are the answers that collect or select from them, and strict forms for what comes in.
Numbers that JSON does not know (NaN and infinities) become ``null``.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from cgsa.events import Case, CommissioningStatus, Diagnosis, Operation
from cgsa.live.alarms import MAX_TEXT
from cgsa.live.intake.block import MAX_TIME
from cgsa.live.intake.refusals import Refusal
from cgsa.live.intermittent import Measurements
from cgsa.live.refused_run import RefusedRun
from cgsa.live.retries import Problem
from cgsa.live.watch import WatchCounts
from cgsa.live.worker_status import WorkState
from cgsa.service.auth import MAX_LIFETIME, MAX_OVERLAP, NAME
from cgsa.service.comparison import Difference
from cgsa.service.rights import MACHINES, MAX_PATTERNS, Role

Time: TypeAlias = Annotated[float, Field(ge=0, lt=MAX_TIME, allow_inf_nan=False)]
"""Seconds since 1970, by the clock of the stream."""
Text: TypeAlias = Annotated[str, Field(max_length=MAX_TEXT)]
MACHINE = r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$"
"""Pattern of the name of a machine."""
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
    """Windows of a time interval: columns by name, with one value per window.

    Older windows are thinned: the column ``stands_for`` has the number of windows that each one stands for.
    """

    machine: str
    begin: float
    end: float
    windows: int
    columns: dict[str, list[float | int | bool | str | None]]


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
