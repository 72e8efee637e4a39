"""What the tables keep besides the events themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from cgsa.events import Case, Diagnosis

DeliveryState: TypeAlias = Literal["held", "notifying", "delivered", "failed", "withdrawn"]
"""What became of a notification to one sink:

- ``held``: the machine is under maintenance; it is sent at the end if the alarm is still active and unacknowledged;
- ``notifying``: the sink has not confirmed it yet;
- ``delivered``: the sink has confirmed it;
- ``failed``: given up, since the sink refused it or was away for too long;
- ``withdrawn``: it was held, and there was nothing to notify about any more.
"""
Repeats: TypeAlias = Literal["once", "daily", "weekly"]


@dataclass(frozen=True)
class StoredDiagnosis:
    """The diagnosis of a batch, with its machine."""

    machine: str
    diagnosis: Diagnosis
    flagged: int = 0
    """Windows rejected by the quality gate."""
    response: float | None = None
    """Mean residual response; null if the method has none."""


@dataclass(frozen=True)
class StoredCase:
    """A case, with its machine."""

    machine: str
    case: Case


@dataclass(frozen=True, eq=False)
class Snippet:
    """The waveform around an alarm."""

    machine: str
    time: float
    """Time of the first sample, in seconds of the stream."""
    case: int
    """Number of the case."""
    sample_rate: float
    channels: tuple[str, ...]
    samples: npt.NDArray[np.float32]
    """(channels, samples)"""


@dataclass(frozen=True)
class AuditEntry:
    """Who did what; entries are never changed."""

    time: float
    """Wall-clock time."""
    who: str
    what: str
    machine: str | None = None
    origin: str = ""
    """Where the request came from, such as an address."""
    result: str = ""
    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class StoredToken:
    """An access token; only a salted hash of its secret is kept."""

    name: str
    role: str
    digest: str
    """Salt and hash."""
    created: float
    last_used: float | None = None
    revoked: float | None = None
    """None while the token is valid."""
    machines: tuple[str, ...] = ()
    """Patterns of the machines that the token is valid for; empty for all machines."""
    expires: float | None = None
    """When the token ceases to be valid; None for never."""
    previous: str | None = None
    """Salt and hash of the secret before the last rotation."""
    previous_until: float | None = None
    """Until when that secret is valid, too."""


@dataclass(frozen=True)
class DeliveryRecord:
    """What became of a notification to one sink; times are of the wall clock."""

    machine: str
    position: int
    """Position in the machine's journal of the record that raised the alarm."""
    index: int
    """Index among the events of that record."""
    case: int
    """Number of the case."""
    sink: str
    time: float
    """When the sink was asked to deliver it."""
    state: DeliveryState
    event: str
    """The change of the case, as JSON."""
    reason: str = ""
    """Why it was sent to this sink, if that is not the first: the escalation, or the end of a maintenance."""
    attempts: int = 0
    """Attempts that failed."""
    error: str = ""
    """The last failure."""
    finished: float | None = None
    """When it was delivered, given up or withdrawn; None before."""


@dataclass(frozen=True)
class MaintenanceWindow:
    """A time in which people work on machines, so that alarms are recorded but notify nobody; of the wall clock."""

    number: int
    """Given by the store when it is added."""
    machines: tuple[str, ...]
    """Names or patterns (``*``, ``?``)."""
    begin: float
    end: float
    """Of the first occurrence, if it repeats."""
    repeats: Repeats
    zone: str
    """Time zone in which a window repeats at the same time of day, such as ``Europe/Berlin``."""
    who: str
    reason: str
    created: float
    ended: float | None = None
    """When a person ended it early, for good; null if nobody did."""
    ended_by: str | None = None


@dataclass(frozen=True)
class StoredTrend:
    """Means over a minute or an hour of a machine."""

    machine: str
    time: float
    """Its begin, in seconds of the stream."""
    seconds: int
    """60 or 3600."""
    batches: int
    """Batches with a health."""
    health: float | None
    """Mean probability of the healthy class; None without such a batch."""
    pieces: int
    """Pieces of signal that were measured."""
    sample_rate: float
    channels: tuple[str, ...]
    values: bytes
    """Levels, (channels, quantities), in single precision."""
    spectrum: bytes
    """Decibels, (channels, lines), in half precision."""


@dataclass(frozen=True)
class Claim:
    """Who may write the results of a machine of a fleet."""

    machine: str
    version: int
    """Version of the assignment that the owner acts on."""
    epoch: int
    """Higher than those of all owners before."""
    owner: str
    """Identifies the claim."""


@dataclass(frozen=True)
class PublishedStatus:
    """Status of a machine of a fleet, as its owner published it last."""

    machine: str
    status: str
    """JSON."""


@dataclass(frozen=True, eq=False)
class HealthyPiece:
    """A piece of the signal of a machine while it was healthy."""

    machine: str
    time: float
    """Of the first sample, in seconds of the stream."""
    sample_rate: float
    channels: tuple[str, ...]
    conditions: Mapping[str, float]
    """Mean operating conditions, as far as they are known."""
    samples: npt.NDArray[np.float32]
    """(channels, samples)"""


@dataclass(frozen=True)
class LedgerRow:
    """A row of the ledger as it is stored: the windows of one batch, or thinned ones of several."""

    id: int
    batch: int
    """The first batch."""
    last_batch: int
    begin: float
    """Time of the first window."""
    time: float
    """Time of the last window."""
    windows: int
    layout: str
    data: bytes
    arrived: float


@dataclass(frozen=True)
class TableSize:
    """Size of a table."""

    rows: int
    bytes: int
    """Total size of its values; the file is somewhat larger."""
