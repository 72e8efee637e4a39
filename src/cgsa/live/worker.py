"""Runs the watch of one machine: journals its inputs, applies them, saves states and restarts from them.

Every input is in the journal before anything is done with it, and the results depend on the journal alone. So a worker
may be killed at any time: the next one loads the newest valid state, continues with the entry after it and produces the
results that this one would have produced.

Any thread may submit blocks and give commands. One thread does the work. Under overload a worker still diagnoses every
window but adapts to none; the journal records which blocks that applies to.

Nothing around it ends a watch. What fails because of disk, memory or handles is tried again (:mod:`cgsa.live.retries`),
an entry that a fault of the program makes impossible to process is left out (:mod:`cgsa.live.skipped_entries`), and
after either the watch continues from its last saved state, as after a kill. A watch that cannot go on takes no more
blocks.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from cgsa.config import formerly
from cgsa.errors import (
    CgsaError,
    ConfigError,
    DataError,
    OverloadError,
    UnavailableError,
    environmental_cause,
    is_environmental,
)
from cgsa.events import Event
from cgsa.live.checkpoint import REPLAYABLE_STATES, Checkpoints, environment
from cgsa.live.commands import COMMISSIONING_NAMES, SERVICE, Command
from cgsa.live.entry_processor import EntryProcessor, ProcessedEntry
from cgsa.live.entry_queue import EntryQueue
from cgsa.live.intake.block import Block
from cgsa.live.intake.refusals import RefusedBlockError
from cgsa.live.journal import Journal
from cgsa.live.kept_signal import KEPT_FOLDER, KeptSignal, SignalRetention
from cgsa.live.pending_commands import PendingCommands
from cgsa.live.protected_states import ProtectedStates
from cgsa.live.recent_blocks import RecentBlocks
from cgsa.live.results import ResultWriter
from cgsa.live.retries import RetriedTasks
from cgsa.live.segments import JournalRecord
from cgsa.live.sender_clock import SenderClock
from cgsa.live.silence import SilenceTimer
from cgsa.live.skipped_entries import SkippedEntry
from cgsa.live.state_file import RestoredState, SavedState
from cgsa.live.store import Store
from cgsa.live.watch import BLOCK, BLOCK_KINDS, BLOCK_NOT_LEARNT, BLOCK_REPEATED, COMMAND, Watch
from cgsa.live.watched_machine import WatchedMachine
from cgsa.live.worker_status import WorkerStatus

MAX_REMARKS = 50
"""Remarks that wait for a journal that cannot be written; the oldest are dropped."""
PROCESS, JOURNAL, SAVE = "process the journal", "write the journal", "save the state"
SILENCE, SNIPPETS = "report silence", "write the waveforms of alarms"


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


class Worker(WatchedMachine):
    """Runs one machine's watch and owns its journal and states.

    The watch must be fresh; it resumes where the last worker on this folder stopped. ``on_events`` receives the
    position of each entry and the events it caused, in the thread that works: while a service runs, each event once;
    after a kill, those since the last saved state again. ``on_processed`` receives each entry after that, and when its
    processing began, in nanoseconds since 1970. ``wake`` is called when there is new work.
    """

    def __init__(
        self,
        watch: Watch,
        folder: Path,
        store: Store,
        *,
        config: WorkerConfig | None = None,
        on_events: Callable[[int, tuple[Event, ...]], None] | None = None,
        on_processed: Callable[[ProcessedEntry, int], None] | None = None,
        wake: Callable[[], None] | None = None,
    ) -> None:
        self.folder, self.config = folder, config or WorkerConfig()
        self._on_events, self._on_processed = on_events, on_processed
        self._states = Checkpoints(folder / "states")
        self._journal = Journal(folder / "journal")
        self._results = ResultWriter(
            watch.machine, self._journal, store, before=self.config.snippet_before, after=self.config.snippet_after
        )
        self._kept = KeptSignal(watch.machine, folder / KEPT_FOLDER, store, self.config.keep)
        self._recent = RecentBlocks(self._journal, BLOCK_KINDS)
        self._lock = Lock()
        self._queue = EntryQueue(self._journal, wake)
        self.remarks: deque[str] = deque(maxlen=MAX_REMARKS)
        """Remarks that are not in the journal yet; any thread may append some."""
        self._retries = RetriedTasks(watch.machine, self.remarks.append)
        self._processor = EntryProcessor(
            watch,
            self._journal,
            self._queue,
            states=self._states,
            results=self._results,
            remark=self.remarks.append,
        )
        self._clock = SenderClock()
        self._pending = PendingCommands()
        self._protected = ProtectedStates()
        self._failure: str | None = None
        """Why the worker stopped for good."""
        self._refusing: str | None = None
        """Why the worker takes no blocks at present."""
        self._block_seconds = 0.0
        self._refused = 0
        self._shedding = False
        self._silence = SilenceTimer()
        self._saved_time = time.monotonic()
        self._reported_position = 0
        """Events of entries before it have been reported."""
        self.remarks += self._journal.notes
        self._retries.attempt(PROCESS, self._processor.restore)
        self._write_remarks()
        if self._processor.started_afresh:
            # A kill before the first state would start it afresh once more, after the blocks that came meanwhile.
            self.save()
        self._retries.attempt(SNIPPETS, self._results.resume_snippets)

    @property
    def watch(self) -> Watch:
        """The watch; another object after each failure."""
        return self._processor.watch

    @property
    def position(self) -> int:
        """Position of the next entry to process."""
        return self._queue.position

    @property
    def has_work(self) -> bool:
        """Whether entries wait to be processed."""
        return self._queue.waiting > 0

    @property
    def waiting(self) -> float:
        """Seconds of signal that wait to be diagnosed."""
        return self._queue.waiting * self._block_seconds

    @property
    def stopped(self) -> bool:
        """Whether the watch cannot go on until the service is restarted."""
        return self._failure is not None

    def status(self) -> WorkerStatus:
        """Return the status of the machine and its watch."""
        watch, problems, catching_up = self.watch, self._retries.problems, self._queue.catching_up
        learning = "frozen" if watch.frozen else "shed" if self._shedding else "learning"
        return WorkerStatus(
            machine=self.machine,
            standing=watch.alarms.alarm_state,
            diagnosis=self._results.diagnosis,
            learning="catching up" if catching_up else learning,
            waiting=self.waiting,
            refused=self._refused,
            counts=watch.counts,
            now=watch.now,
            problem=self._failure or "; ".join(dict.fromkeys(one.reason for one in problems)) or None,
            work="stopped" if self.stopped else "retrying" if problems else "catching up" if catching_up else "working",
            problems=problems,
            commissioning=watch.commissioning,
            operation=watch.operation,
            measurements=watch.measurements,
            last_refused=watch.last_refused,
            refused_run=watch.refused_run,
            case=watch.alarms.case,
            frozen=watch.frozen,
            clock_skew=self._clock.skew,
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
        self._protected.view(number)

    def submit(self, block: Block) -> int:
        """Write a block to the journal and return its position there; from then on it will be diagnosed."""
        if block.machine != self.machine:
            raise DataError(f"block of {block.machine} sent to {self.machine}; expected its own")
        noticed = self._clock.observe(block.time + block.seconds, time.time())
        try:
            if noticed is not None and not self.stopped:
                self._append(COMMAND, Command("clock", SERVICE, noticed, {"skew": self._clock.skew}).to_bytes())
            self._admit(block)
            position = self._accept(block)
        except OverloadError:
            self._refused += 1
            raise
        self._recent.add(block)
        return position

    def command(self, command: Command) -> Future[None]:
        """Write a command to the journal; the future ends when it was executed, or says why it was refused."""
        if command.name == "roll_back":
            wanted, existing = int(command.number("state")), [saved.number for saved in self.states()]
            if wanted not in existing:
                known = f"{existing[0]} to {existing[-1]}" if existing else "none"
                raise DataError(f"{self.machine}: there is no state {wanted}; there are {known}")
        with self._lock:
            # Registered first: the other thread may execute the command as soon as it is appended.
            position = self._journal.end
            done = self._pending.add(position)
            try:
                self._append(COMMAND, command.to_bytes())
            except BaseException:
                self._pending.remove(position)
                raise
        if self.stopped:
            done.cancel()
        return done

    def work(self) -> bool:
        """Process the next entry, if there is one and it is not put off; return whether to go on at once."""
        if self.stopped or not self._retries.is_due(PROCESS):
            return False
        begun = time.time_ns()
        try:
            done = self._processor.process()
        except Exception as error:  # whatever fails here must not end the watch
            if is_environmental(error):
                self._retries.fail(PROCESS, error)
            elif self._processor.leave_out(error):
                return True
            else:
                self.fail(f"the watch stopped: {error!r}; restart the service once this is repaired")
            return False
        self._retries.succeed(PROCESS)
        if done is not None:
            self._report(done)
            if self._on_processed is not None:
                self._on_processed(done, begun)
        return done is not None

    def tick(self) -> None:
        """Do what is due: write remarks, report silence, store snippets, save a state."""
        if self.stopped:
            return
        self._write_remarks()
        self._retries.attempt(SILENCE, self._report_silence)
        self._retries.attempt(SNIPPETS, lambda: self._results.write_snippets(self.watch, self.position))
        if time.monotonic() - self._saved_time >= self.config.checkpoint_seconds:
            self.save()

    def save(self) -> None:
        """Save a state, unless nothing has happened since the last one."""
        self._saved_time = time.monotonic()
        if self.position == self._processor.saved_position or not self._processor.settled:
            return
        # If it fails, the journal has everything; only a restart takes longer.
        try:
            self._save()
        except Exception as error:  # a state less is no reason to end the watch
            self._retries.fail(SAVE, error)
        else:
            self._retries.succeed(SAVE)

    def refuse_blocks(self, why: str | None) -> None:
        """Take no more blocks, for a reason that passes, while those that wait are diagnosed; None takes them again."""
        with self._lock:
            self._refusing = why

    def fail(self, why: str) -> None:
        """Stop working for good, and take no more blocks."""
        with self._lock:
            self._failure = why
        self._pending.cancel()

    def close(self) -> None:
        """Save a state, and let another process take over."""
        if not self.stopped:
            self._write_remarks()
            self.save()
        self._journal.close()
        self._pending.cancel()

    def _report(self, done: ProcessedEntry) -> None:
        """Report what an entry led to, to whoever waits for it."""
        entry, refused = done.entry, done.result.refused
        if done.used:
            self._silence.restart()
            # After a restart, how much waits is known before the next block arrives.
            self._block_seconds = self._block_seconds or self.watch.block_seconds
        if isinstance(entry, JournalRecord) and entry.kind == COMMAND and not refused:
            self._follow_up(entry)
        if self._on_events is not None and done.result.events and entry.position >= self._reported_position:
            self._on_events(entry.position, done.result.events)
        self._reported_position = max(self._reported_position, entry.end)
        skipped = isinstance(entry, SkippedEntry)
        self._pending.answer(entry.position, str(entry) if skipped else refused)
        if not skipped and self._processor.skipped.unconfirmed:
            self._retries.attempt(JOURNAL, self._confirm_skipped)

    def _confirm_skipped(self) -> None:
        self._processor.skipped.confirm(lambda command: self._append(COMMAND, command.to_bytes()))

    def _admit(self, block: Block) -> None:
        """Refuse a block that cannot be used; the journal gets the reason in its place."""
        self._check_going()
        try:
            self.watch.admission.check(block, self._recent)
        except RefusedBlockError as error:
            details = {name: getattr(block, name) for name in ("time", "sequence", "seconds")}
            details["reason"] = error.reason
            with self._lock:
                self._append(COMMAND, Command("refuse", SERVICE, str(error), details).to_bytes())
            raise

    def _accept(self, block: Block) -> int:
        """Write a block to the journal, if not too much waits."""
        payload = block.to_bytes()
        repeated = self._recent.includes(block, earlier=block.sequence < self.watch.next_sequence)
        with self._lock:
            self._check_going()
            self._block_seconds = block.seconds
            waiting = self.waiting
            if waiting > self.config.max_waiting:
                # While the watch makes no progress, others must not wait for it.
                kind = UnavailableError if self._retries.fails(PROCESS) else OverloadError
                raise kind(f"{self.machine}: {waiting:.0f} s of signal wait already; send this block again later")
            self._update_shedding(waiting)
            kind_of_record = BLOCK_REPEATED if repeated else BLOCK_NOT_LEARNT if self._shedding else BLOCK
            return self._append(kind_of_record, payload, block)

    def check_progress(self) -> None:
        """Raise an error if what waits is not processed at present."""
        self._check_going()
        if self._retries.fails(PROCESS):
            raise UnavailableError(f"{self.machine}: cannot {PROCESS} at present")

    def _check_going(self) -> None:
        """Refuse blocks that nobody would diagnose."""
        why = self._failure or self._refusing
        if why is not None:
            raise UnavailableError(f"{self.machine} is not monitored at present: {why}")

    def _append(self, kind: str, payload: bytes, block: Block | None = None) -> int:
        try:
            position = self._queue.append(kind, payload, block)
        except DataError as error:
            if not is_environmental(error):
                raise
            self._retries.fail(JOURNAL, error)
            why = f"the journal cannot be written ({environmental_cause(error)}); try again later"
            raise UnavailableError(f"{self.machine}: {why}") from error
        self._retries.succeed(JOURNAL)
        return position

    def _write_remarks(self) -> None:
        """Write remarks to the journal, as far as it can be written."""
        while self.remarks and self._retries.is_due(JOURNAL):
            try:
                self._append(COMMAND, Command("remark", SERVICE, self.remarks[0]).to_bytes())
            except CgsaError:
                return  # It is known, and they stay.
            self.remarks.popleft()

    def _update_shedding(self, waiting: float) -> None:
        """Decide whether the next block is used for adaptation, and report when that changes."""
        # A backlog since a restart is no overload; it was merely deferred.
        if self._queue.catching_up:
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
        """Write a command to the journal when no block was used for a while; the journal has no other clock."""
        for command in self._silence.due_commands(self.watch):
            if not self.has_work:
                self.command(command)

    def _save(self) -> None:
        # Until a later entry is processed, it is open whether the fault is in those that were skipped.
        if self._processor.skipped.unconfirmed:
            return
        # What a state includes is not done again, so its results must be on the disk before.
        self._results.flush()
        tensors, rest = self.watch.state()
        about = {"watch": rest, "surroundings": environment(self.watch.signal.device)}
        self._journal.sync()
        self._states.save(self.position, tensors, about, time=self.watch.now, protect=self._protected.numbers)
        self._processor.saved_position = self.position
        states = self._states.states()
        oldest = min([saved.position for saved in states][-REPLAYABLE_STATES:], default=0)
        self._protected.forget(oldest)
        self._journal.forget(min(oldest, self._kept.first_needed(states, self.watch.now)), self._kept.take)

    def _follow_up(self, entry: JournalRecord) -> None:
        """Save a state soon after a command about learning, and keep what repeating the command needs."""
        command = Command.from_bytes(entry.payload)
        if command.name == "roll_back":
            self._protected.roll_back(entry.position, int(command.number("state")))
        if command.name in {"roll_back", "reset", "freeze", "thaw", *COMMISSIONING_NAMES}:
            self._saved_time = -float("inf")
