"""A machine that some shard watches, as the API and the pages see it."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import replace
from threading import Lock

from pydantic import TypeAdapter

from cgsa.data.recording import Recording
from cgsa.errors import DataError
from cgsa.fleet.gateway import Gateway
from cgsa.fleet.machine_status import PublishedMachine
from cgsa.fleet.states import MachineStates
from cgsa.live.commands import Command
from cgsa.live.intake.block import Block
from cgsa.live.plant import MachineConfig
from cgsa.live.retries import Problem
from cgsa.live.state_file import RestoredState, SavedState
from cgsa.live.watch import WatchConfig, WatchCounts
from cgsa.live.worker_status import WorkerStatus
from cgsa.nn.bundle import Manifest, ModelBundle

SILENT_SECONDS = 30.0
"""Time without a word from its shard after which a machine is not taken for watched."""
_PUBLISHED = TypeAdapter(PublishedMachine)


class RemoteMachine:
    """Shows what the shard of a machine publishes, and hands commands to the log; usable from any thread.

    The machine's signal stays where the shard is, so there are no samples to show.
    """

    newest_block: Block | None = None

    def __init__(self, config: MachineConfig, bundle: ModelBundle, states: MachineStates, gateway: Gateway) -> None:
        self.config, self.machine = config, config.name
        self.manifest: Manifest = bundle.manifest
        self.watch_config: WatchConfig = config.watch_config(bundle)
        self._states, self._gateway = states, gateway
        self._text = ""
        self._published: PublishedMachine | None = None
        self._heard = time.monotonic()
        """When the status changed last."""
        self._pending: dict[int, Future[None]] = {}
        """Commands that are not carried out yet, by their positions."""
        self._lock = Lock()

    @property
    def now(self) -> float:
        """Time of its newest sample."""
        return 0.0 if self._published is None else self._published.worker.now

    def recent_recording(self) -> tuple[float, Recording] | None:
        """Return None: the signal is where the shard is."""
        return None

    def status(self) -> WorkerStatus:
        """Return what its shard has published last."""
        published, silent = self._published, time.monotonic() - self._heard
        if published is None:
            status = WorkerStatus(self.machine, "normal", None, "learning", 0.0, 0, WatchCounts(), 0.0, None)
            return _without_word(status, silent, "no shard has it yet")
        if silent > SILENT_SECONDS:
            return _without_word(published.worker, silent, f"no word from its shard for {silent:.0f} s")
        return published.worker

    def receive(self, text: str) -> None:
        """Take over what its shard has published, and answer the commands that are carried out."""
        if text == self._text:
            return
        published = _PUBLISHED.validate_json(text)
        self._text, self._published, self._heard = text, published, time.monotonic()
        with self._lock:
            done = [position for position in self._pending if position < published.position]
            answers = [(position, self._pending.pop(position)) for position in done]
        refusals = dict(published.refusals)
        for position, answer in answers:
            if position in refusals:
                answer.set_exception(DataError(refusals[position]))
            else:
                answer.set_result(None)

    def command(self, command: Command) -> Future[None]:
        """Write a command to the log; the future ends when the shard has published what became of it."""
        answer: Future[None] = Future()
        # Nobody cancels it once it is in the log.
        answer.set_running_or_notify_cancel()
        position = self._gateway.command(self.machine, command)
        with self._lock:
            self._pending[position] = answer
        return answer

    def states(self) -> tuple[SavedState, ...]:
        """Return the saved states, the one that would be used first last."""
        return tuple(self._states.saved())

    def state(self, number: int) -> RestoredState:
        """Return a state with its tensors."""
        return self._states.load(number)

    def protect_state(self, number: int) -> None:
        """Do nothing: the shard keeps the newest states, whoever looks at them."""

    def close(self) -> None:
        """Give up what waits for an answer; commands in the log are carried out all the same."""
        with self._lock:
            pending, self._pending = self._pending, {}
        for answer in pending.values():
            answer.set_exception(DataError("the pages end; the command is in the log and is carried out all the same"))


def _without_word(status: WorkerStatus, silent: float, why: str) -> WorkerStatus:
    problem = Problem("ask its shard", "no answer", why, time.time() - silent, 1)
    return replace(status, problem=why, problems=(problem,), work="retrying" if status.diagnosis else "catching up")
