"""Runs the watch of one machine: journals its inputs, applies them, saves states and restarts from them.

Every input is in the journal before anything is done with it, and the results depend on
the journal alone. So a worker may be killed at any time: the next one loads the newest
valid state, continues with the entry after it and produces the results that this one
would have produced.

Any thread may submit blocks and give commands. One thread does the work. Under overload
a worker still diagnoses every window but adapts to none; the journal records which blocks
that applies to.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from torch import Tensor

from cgsa.config import formerly
from cgsa.errors import BundleError, ConfigError, DataError, OverloadError
from cgsa.events import CommissioningStatus, Diagnosis, Event, Operation
from cgsa.live.checkpoint import Checkpoints, RestoredState, SavedState, environment
from cgsa.live.commands import COMMISSIONING_NAMES, Command
from cgsa.live.intake.block import Block
from cgsa.live.intake.refusals import Refusal, RefusedBlockError
from cgsa.live.intermittent import Measurements
from cgsa.live.journal import Journal
from cgsa.live.kept_signal import KEPT_FOLDER, KeptSignal, SignalRetention
from cgsa.live.recent_blocks import RecentBlocks
from cgsa.live.results import ResultWriter
from cgsa.live.segments import Entry, JournalRecord
from cgsa.live.store import Store
from cgsa.live.watch import BLOCK, BLOCK_NOT_LEARNT, COMMAND, Watch, WatchCounts

SERVICE = "service"
"""Author of commands that no user gives."""
MAX_QUEUED = 256
"""Entries that wait in memory; further ones wait in the journal alone."""
REPLAYABLE_STATES = 3
"""The journal reaches back to this many states: if one is damaged, the one before it takes over."""
PROTECTED_SECONDS = 600.0
"""How long a state is protected from removal after a user viewed it."""
MAX_PROTECTED = 4
"""States protected for viewers at a time, since each takes space on the disk."""


@dataclass(frozen=True)
class WorkerConfig:
    """Settings of a worker."""

    checkpoint_seconds: float = 10.0
    """Minimum time between two saved states; a restart after a kill repeats no more work than that."""
    shed_above: float = 2.0
    """Seconds of signal waiting above which learning is suspended."""
    shed_below: float = 0.5
    """Seconds of signal waiting below which learning resumes."""
    max_waiting: float = field(default=120.0, metadata=formerly("most_waiting"))
    """Seconds of signal that may wait; further blocks are refused until some are processed."""
    snippet_before: float = 4.0
    """Seconds of waveform to show from before an alarm."""
    snippet_after: float = 1.0
    """Seconds of waveform to show from after an alarm."""
    keep: SignalRetention = field(default_factory=SignalRetention)
    """How much of the journal to keep for labels that are given later."""

    def __post_init__(self) -> None:
        if not 0 <= self.shed_below <= self.shed_above < self.max_waiting or self.checkpoint_seconds <= 0:
            raise ConfigError(
                f"checkpoint_seconds {self.checkpoint_seconds:g}, shed_below {self.shed_below:g}, shed_above "
                f"{self.shed_above:g}, max_waiting {self.max_waiting:g}; expected positive seconds in ascending order"
            )
        if min(self.snippet_before, self.snippet_after) < 0:
            raise ConfigError("snippet_before and snippet_after; expected seconds, 0 or more")


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
    """Blocks that were refused because too many waited."""
    counts: WatchCounts
    now: float
    """Stream time."""
    problem: str | None
    """What the operator has to take care of; None if all is well."""
    commissioning: CommissioningStatus | None = None
    """How far the commissioning is; None if the method needs none."""
    operation: Operation | None = None
    """Whether the machine runs, and for how long it has; None if that is unknown."""
    measurements: Measurements | None = None
    """When the machine was measured and will be; None if it is measured all the time."""
    last_refused: Refusal | None = None
    """The newest data that were refused or are missing; None if there are none."""


class Worker:
    """Runs one machine's watch and owns its journal and states.

    The watch must be fresh; it resumes where the last worker on this folder stopped. ``on_events`` receives the
    position of each entry and the events it caused, in the thread that works: while a service runs, each event once;
    after a kill, those since the last saved state again. ``wake`` is called when there is new work.
    """

    def __init__(
        self,
        watch: Watch,
        folder: Path,
        store: Store,
        *,
        config: WorkerConfig | None = None,
        on_events: Callable[[int, tuple[Event, ...]], None] | None = None,
        wake: Callable[[], None] | None = None,
    ) -> None:
        self.watch, self.folder, self.config = watch, folder, config or WorkerConfig()
        self._on_events, self._wake = on_events, wake
        self._states = Checkpoints(folder / "states")
        self._journal = Journal(folder / "journal")
        self._results = ResultWriter(
            watch.machine, self._journal, store, before=self.config.snippet_before, after=self.config.snippet_after
        )
        self._kept = KeptSignal(watch.machine, folder / KEPT_FOLDER, store, self.config.keep)
        self._recent = RecentBlocks(self._journal, frozenset({BLOCK, BLOCK_NOT_LEARNT}))
        self._lock = Lock()
        self._queued: deque[Entry] = deque()
        self._reading: Iterator[Entry] | None = None
        self._awaited: dict[int, Future[None]] = {}
        """Futures of commands, by their positions."""
        self._rollbacks: dict[int, int] = {}
        """States that were rolled back to, by the positions of the commands."""
        self._viewed: dict[int, float] = {}
        """When users last viewed states."""
        self._problems: dict[str, str] = {}
        """Tasks that fail at present and are tried again, and why."""
        self._failure: str | None = None
        """Why the worker stopped for good."""
        self._block_seconds = 0.0
        self._refused = 0
        self._shedding = False
        self._block_time = time.monotonic()
        """When the last block arrived."""
        self._silences = 0
        """Reports of silence since the last block."""
        self._saved_time = time.monotonic()
        self._position = self._saved_position = -1
        self._reads_journal = True
        """Whether entries wait that are in the journal alone."""
        self._resume()
        self._reads_journal = self._catching_up = self._position < self._journal.end

    @property
    def machine(self) -> str:
        """Name of the machine."""
        return self.watch.machine

    @property
    def position(self) -> int:
        """Position of the next entry to process."""
        return self._position

    @property
    def has_work(self) -> bool:
        """Whether entries wait to be processed."""
        return self._position < self._journal.end

    @property
    def waiting(self) -> float:
        """Seconds of signal that wait to be diagnosed."""
        return (self._journal.end - self._position) * self._block_seconds

    def status(self) -> WorkerStatus:
        """Return the status of the machine and its watch."""
        watch = self.watch
        learning = "frozen" if watch.frozen else "shed" if self._shedding else "learning"
        return WorkerStatus(
            machine=self.machine,
            standing=watch.alarms.alarm_state,
            diagnosis=self._results.diagnosis,
            learning="catching up" if self._catching_up else learning,
            waiting=self.waiting,
            refused=self._refused,
            counts=watch.counts,
            now=watch.now,
            problem=self._failure or "; ".join(tuple(self._problems.values())) or None,
            commissioning=watch.commissioning,
            operation=watch.operation,
            measurements=watch.measurements,
            last_refused=watch.last_refused,
        )

    def states(self) -> tuple[SavedState, ...]:
        """Return the states that can be rolled back to, oldest first."""
        return self._states.states()

    def state(self, number: int) -> RestoredState:
        """Return a state with its tensors, and protect it, since the viewer may want to roll back to it."""
        found = self._states.load(number)
        self.protect_state(number)
        return found

    def protect_state(self, number: int) -> None:
        """Keep a state from removal for a while, for a user who is viewing it."""
        with self._lock:
            viewed = {**self._viewed, number: time.monotonic()}
            latest = sorted(viewed, key=viewed.__getitem__)[-MAX_PROTECTED:]
            self._viewed = {state: viewed[state] for state in latest}

    def submit(self, block: Block) -> int:
        """Write a block to the journal and return its position there."""
        if block.machine != self.machine:
            raise DataError(f"block of {block.machine} sent to {self.machine}; expected its own")
        self._admit(block)
        payload = block.to_bytes()
        with self._lock:
            self._block_seconds = block.seconds
            self._block_time, self._silences = time.monotonic(), 0
            waiting = self.waiting
            if waiting > self.config.max_waiting:
                self._refused += 1
                raise OverloadError(
                    f"{self.machine}: {waiting:.0f} s of signal wait already; send this block again later"
                )
            self._update_shedding(waiting)
            position = self._append(BLOCK_NOT_LEARNT if self._shedding else BLOCK, payload, block)
        self._recent.add(block)
        return position

    def command(self, command: Command) -> Future[None]:
        """Write a command to the journal; the future ends when it was executed, or says why it was refused."""
        if command.name == "roll_back":
            wanted, existing = int(command.number("state")), [saved.number for saved in self.states()]
            if wanted not in existing:
                known = f"{existing[0]} to {existing[-1]}" if existing else "none"
                raise DataError(f"{self.machine}: there is no state {wanted}; there are {known}")
        done: Future[None] = Future()
        with self._lock:
            # Registered first: the other thread may execute the command as soon as it is appended.
            position = self._journal.end
            self._awaited[position] = done
            try:
                self._append(COMMAND, command.to_bytes())
            except BaseException:
                del self._awaited[position]
                raise
        if self._failure is not None:
            done.cancel()
        return done

    def work(self) -> bool:
        """Process the next entry, if there is one; return whether there was."""
        entry = self._next()
        if entry is None:
            return False
        result = self.watch.apply(entry)
        if isinstance(entry, JournalRecord) and entry.kind == COMMAND and not result.refused:
            self._follow_up(entry)
        self._results.write(entry, result)
        # Last, so that whoever waits for a position finds its results in the store.
        self._position = entry.end
        if self._on_events is not None and result.events:
            self._on_events(entry.position, result.events)
        self._answer(entry, result.refused)
        return True

    def tick(self) -> None:
        """Do what is due: report silence, store snippets, save a state. A task that fails is tried again."""
        self._attempt("silence", self._report_silence)
        self._attempt("snippets", lambda: self._results.write_snippets(self.watch, self._position))
        if time.monotonic() - self._saved_time >= self.config.checkpoint_seconds:
            self.save()

    def save(self) -> None:
        """Save a state, unless nothing has happened since the last one."""
        self._saved_time = time.monotonic()
        if self._position != self._saved_position:
            # If it fails, the journal has everything; only a restart takes longer.
            self._attempt("state", self._save)

    def fail(self, why: str) -> None:
        """Stop working for good; blocks still go into the journal."""
        self._failure = why
        self._cancel_commands()

    def close(self) -> None:
        """Save a state, and let another process take over."""
        # A failed entry may have been applied in part; the journal continues from the last complete state.
        if self._failure is None:
            self.save()
        self._journal.close()
        self._cancel_commands()

    def _resume(self) -> None:
        """Continue from the newest state that fits."""
        remarks = list(self._journal.notes)
        restored = self._states.newest()
        remarks += self._states.notes
        self._position = self._journal.begin
        if restored is not None:
            try:
                about = restored.saved.about.get("watch")
                self.watch.restore(restored.tensors, about if isinstance(about, Mapping) else {})
                self._position = self._saved_position = restored.saved.position
                self._journal.advance(self._position)
            except BundleError as error:
                # After a deliberate change of the model, the watch starts with the next blocks.
                remarks.append(f"{error}; the watch starts afresh")
                self._position = self._journal.end
        elif self._position > 0:
            remarks.append(f"no valid state is left; the watch starts afresh at entry {self._position} of the journal")
        for text in remarks:
            self._append(COMMAND, Command("remark", SERVICE, text).to_bytes())
        self._attempt("snippets", self._results.resume_snippets)

    def _admit(self, block: Block) -> None:
        """Refuse a block that cannot be used; the journal gets the reason in its place."""
        try:
            self.watch.admission.check(block, self._recent)
        except RefusedBlockError as error:
            details = {"time": block.time, "sequence": block.sequence, "reason": error.reason}
            with self._lock:
                self._append(COMMAND, Command("refuse", SERVICE, str(error), details).to_bytes())
            raise

    def _attempt(self, task: str, action: Callable[[], None]) -> None:
        """Run a task; a failure is reported as a problem until the task succeeds."""
        try:
            action()
        except (BundleError, DataError) as error:
            self._problems[task] = str(error)
        else:
            self._problems.pop(task, None)

    def _next(self) -> Entry | None:
        """Return the next entry: from memory, or from the journal if more wait than memory holds."""
        with self._lock:
            if self._queued and not self._reads_journal:
                return self._queued.popleft()
            if self._position == self._journal.end:
                self._reads_journal = self._catching_up = False
                self._reading = None
                return None
        if self._reading is None:
            self._queued.clear()
            self._reading = self._journal.read(self._position)
        entry = next(self._reading, None)
        if entry is None:
            # More entries have come since the reading began.
            self._reading = None
            return self._next()
        return entry

    def _append(self, kind: str, payload: bytes, block: Block | None = None) -> int:
        position = self._journal.append(kind, payload)
        if not self._reads_journal:
            self._queued.append(JournalRecord(position, kind, payload, block))
            self._reads_journal = len(self._queued) > MAX_QUEUED
        if self._wake is not None:
            self._wake()
        return position

    def _update_shedding(self, waiting: float) -> None:
        """Decide whether the next block is used for adaptation, and report when that changes."""
        # A backlog since a restart is no overload; it was merely deferred.
        if self._catching_up:
            return
        if not self._shedding and waiting > self.config.shed_above:
            text = f"{waiting:.1f} s behind: learning is shed"
        elif self._shedding and waiting < self.config.shed_below:
            text = "caught up: learning resumes"
        else:
            return
        self._append(COMMAND, Command("remark", SERVICE, text).to_bytes())
        self._shedding = not self._shedding

    def _report_silence(self) -> None:
        """Write a command to the journal when no block has come for a while; the journal has no other clock."""
        silent = time.monotonic() - self._block_time
        config = self.watch.config
        bursts = config.intermittent
        if bursts is not None and silent > bursts.settle and self.watch.signal.holds_windows and not self.has_work:
            self.command(Command("end_recording", SERVICE))
        if silent > config.silence_seconds * (self._silences + 1) and self.watch.counts.blocks:
            self.command(Command("silence", SERVICE, details={"seconds": silent}))
            self._silences += 1

    def _save(self) -> None:
        tensors, rest = self.watch.state()
        about = {"watch": rest, "surroundings": environment(self.watch.signal.method.device)}
        self._journal.sync()
        self._states.save(self._position, tensors, about, time=self.watch.now, protect=self._protected())
        self._saved_position = self._position
        states = self._states.states()
        oldest = min([saved.position for saved in states][-REPLAYABLE_STATES:], default=0)
        self._rollbacks = {position: state for position, state in self._rollbacks.items() if position >= oldest}
        self._journal.forget(min(oldest, self._kept.first_needed(states, self.watch.now)), self._kept.take)

    def _protected(self) -> frozenset[int]:
        """Return the states that must not be removed yet."""
        since = time.monotonic() - PROTECTED_SECONDS
        viewed = (state for state, viewed_time in self._viewed.items() if viewed_time > since)
        return frozenset(viewed) | frozenset(self._rollbacks.values())

    def _follow_up(self, entry: JournalRecord) -> None:
        """Save a state soon after a command about learning, and keep what repeating the command needs."""
        command = Command.from_bytes(entry.payload)
        if command.name == "roll_back":
            self._rollbacks[entry.position] = int(command.number("state"))
        if command.name in {"roll_back", "reset", "freeze", "thaw", *COMMISSIONING_NAMES}:
            self._saved_time = -float("inf")

    def _answer(self, entry: Entry, refused: str | None) -> None:
        with self._lock:
            future = self._awaited.pop(entry.position, None)
        if future is None or not future.set_running_or_notify_cancel():
            return
        if refused is None:
            future.set_result(None)
        else:
            future.set_exception(DataError(refused))

    def _cancel_commands(self) -> None:
        with self._lock:
            futures, self._awaited = list(self._awaited.values()), {}
        for future in futures:
            future.cancel()


def state_loader(folder: Path) -> Callable[[int], Mapping[str, Tensor]]:
    """Return a function that loads the tensors of an earlier state from a machine's folder by number."""
    states = Checkpoints(folder / "states")
    return lambda number: states.load(number).tensors
