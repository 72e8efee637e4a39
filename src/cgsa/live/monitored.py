"""The machines of a plant as the API and the pages see them, whoever runs their watches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol, TypeAlias

from cgsa.data.recording import Recording
from cgsa.events import Event
from cgsa.live.commands import Command
from cgsa.live.intake.block import Block
from cgsa.live.intake.refusals import Refusal
from cgsa.live.retries import Problem
from cgsa.live.state_file import RestoredState, SavedState
from cgsa.live.store import Store
from cgsa.live.watch import WatchConfig
from cgsa.live.worker_status import WorkerStatus
from cgsa.nn.bundle import Manifest

if TYPE_CHECKING:
    from cgsa.live.plant import ExplainConfig

EventListener: TypeAlias = Callable[[str, int | None, tuple[Event, ...]], None]
"""Receives the machine, a position in its journal and the events that the entry there caused; without a position,
events that another process has written. It is called in a thread that others wait for, so it must not block."""


class MonitoredMachine(Protocol):
    """A machine that is watched, by this process or by another one."""

    @property
    def machine(self) -> str:
        """Name of the machine."""

    @property
    def manifest(self) -> Manifest:
        """Manifest of its model."""

    @property
    def watch_config(self) -> WatchConfig:
        """How it is watched."""

    @property
    def now(self) -> float:
        """Time of its newest sample, in seconds since 1970."""

    @property
    def newest_block(self) -> Block | None:
        """Its newest accepted block; None before the first, and if another process has it."""

    def recent_recording(self) -> tuple[float, Recording] | None:
        """Return its newest signal and the time of the first sample; None if there is none here."""

    def status(self) -> WorkerStatus:
        """Return the status of the machine and its watch."""

    def command(self, command: Command) -> Future[None]:
        """Hand over a command; the future ends when it was executed, or says why it was refused."""

    def states(self) -> tuple[SavedState, ...]:
        """Return the states that can be rolled back to, oldest first."""

    def state(self, number: int) -> RestoredState:
        """Return a state with its tensors, and protect it, since the viewer may want to roll back to it."""

    def protect_state(self, number: int) -> None:
        """Keep a state from removal for a while, for a user who is viewing it."""


class MonitoredPlant(Protocol):
    """Machines that are watched, and the store with their history."""

    @property
    def store(self) -> Store:
        """What became of them."""

    @property
    def workers(self) -> Mapping[str, MonitoredMachine]:
        """The machines by their names."""

    @property
    def machines(self) -> Collection[str]:
        """Names of the machines that are watched."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What fails at present besides the work on single machines, and is tried again."""

    def worker(self, machine: str) -> MonitoredMachine:
        """Return a machine, or say which there are."""

    def explain_config(self, machine: str) -> ExplainConfig:
        """Return what is known of a machine, so that its alarms can be explained."""

    def subscribe(self, listener: EventListener) -> Callable[[], None]:
        """Call a listener with all events from now on; return a function that ends the subscription."""

    def submit(self, block: Block) -> int:
        """Hand a block to its machine and return its position; from then on it will be diagnosed."""

    def command(self, machine: str, command: Command) -> object:
        """Hand a command to a machine."""

    def last_refused(self, machine: str) -> Refusal | None:
        """Return the newest data of a machine that were refused or are missing, as far as they are known here."""

    def start(self) -> None:
        """Start all threads."""

    def stop(self) -> None:
        """Stop; what was accepted is not lost."""
