"""What people and pages get to see of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cgsa.events import Case, Diagnosis


@dataclass(frozen=True)
class StoredDiagnosis:
    """The diagnosis of a batch, and whose it is."""

    machine: str
    diagnosis: Diagnosis
    flagged: int = 0
    """Windows that the quality gate kept from the method."""
    response: float | None = None
    """Mean residual response; none where the method has none."""


@dataclass(frozen=True)
class StoredCase:
    """A case, and whose it is."""

    machine: str
    case: Case


@dataclass(frozen=True, eq=False)
class Snippet:
    """The waveform around an alarm."""

    machine: str
    time: float
    """Second of the stream at which it begins."""
    case: int
    """Number of the case."""
    sample_rate: float
    channels: tuple[str, ...]
    samples: npt.NDArray[np.float32]
    """(channels, samples)"""


@dataclass(frozen=True)
class AuditEntry:
    """Who did what; no row of it is ever changed."""

    time: float
    """By the clock on the wall."""
    who: str
    what: str
    machine: str | None = None
    origin: str = ""
    """Where it came from, such as an address."""
    result: str = ""
    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class StoredToken:
    """What somebody shows to be let in; only a salted hash of it is kept."""

    name: str
    role: str
    digest: str
    """Salt and hash, as whoever checks it writes them."""
    created: float
    last_used: float | None = None
    revoked: float | None = None
    """None while it is good."""


@dataclass(frozen=True)
class TableSize:
    """How much a table holds."""

    rows: int
    bytes: int
    """Of its values; what the file takes is somewhat more."""
