"""The status of a machine and of its watch, as the API, the pages and the metrics show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from cgsa.events import Case, CommissioningStatus, Diagnosis, Operation
from cgsa.live.intake.refusals import Refusal
from cgsa.live.intermittent import Measurements
from cgsa.live.refused_run import RefusedRun
from cgsa.live.retries import Problem
from cgsa.live.watch import WatchCounts

WorkState: TypeAlias = Literal["working", "catching up", "retrying", "stopped"]
"""Whether a machine is watched:

- ``working``: every block is diagnosed as it comes;
- ``catching up``: data from before the start, or from before a failure, are diagnosed first;
- ``retrying``: something fails because of disk, memory or handles, and is tried again by itself;
- ``stopped``: a fault of the program; no blocks are taken until the service is restarted.
"""


@dataclass(frozen=True, eq=False)
class WorkerStatus:
    """Status of a machine and its watch."""

    machine: str
    standing: str
    """State of its alarm."""
    diagnosis: Diagnosis | None
    """The newest diagnosis; None before the first."""
    learning: str
    """``learning``, ``frozen``, ``shed`` or ``catching up``."""
    waiting: float
    """Seconds of signal that wait to be diagnosed."""
    refused: int
    """Blocks that were refused because too many waited, or because the journal could not be written."""
    counts: WatchCounts
    now: float
    """Stream time."""
    problem: str | None
    """What the operator has to take care of; None if all is well."""
    work: WorkState = "working"
    problems: tuple[Problem, ...] = ()
    """What fails at present and is tried again."""
    commissioning: CommissioningStatus | None = None
    """How far the commissioning is; None if the method needs none."""
    operation: Operation | None = None
    """Whether the machine runs, and for how long it has; None if that is unknown."""
    measurements: Measurements | None = None
    """When the machine was measured and will be; None if it is measured all the time."""
    last_refused: Refusal | None = None
    """The newest data that were refused or are missing; None if there are none."""
    refused_run: RefusedRun | None = None
    """The blocks refused since the last one in use; None if that was the newest."""
    case: Case | None = None
    """Its newest case, open or not; None before the first."""
    frozen: bool = False
    """Whether a person has frozen learning."""
    clock_skew: float | None = None
    """Seconds by which the clock of the sender is ahead of this computer's; None before the first block."""
