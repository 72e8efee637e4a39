"""What the tables keep besides the events themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cgsa.events import Case, Diagnosis


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
class TableSize:
    """Size of a table."""

    rows: int
    bytes: int
    """Total size of its values; the file is somewhat larger."""
