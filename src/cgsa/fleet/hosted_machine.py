"""One machine in a shard: applies the records of its log to its watch, and hands on results and states.

The results of a machine depend on its log alone, as those of a single service depend on its journal. A shard may be
killed at any time: the next one loads the newest state, continues with the record after it, and produces the results
that this one would have produced.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from cgsa.errors import is_environmental
from cgsa.events import Case, Diagnosis
from cgsa.fleet.machine_log import LogQueue, MachineLog
from cgsa.fleet.machine_status import PublishedMachine
from cgsa.fleet.results import ResultBatch, ResultStore
from cgsa.fleet.states import MachineStates
from cgsa.live.checkpoint import REPLAYABLE_STATES, environment
from cgsa.live.commands import SERVICE, Command
from cgsa.live.entry_processor import EntryProcessor, ProcessedEntry
from cgsa.live.retries import Problem, RetriedTasks
from cgsa.live.segments import Entry, JournalRecord
from cgsa.live.silence import SilenceTimer
from cgsa.live.skipped_entries import SkippedEntry
from cgsa.live.watch import BLOCK_NOT_LEARNT, COMMAND, Watch, WatchResult
from cgsa.live.worker_status import WorkerStatus

PROCESS, APPEND = "process the log", "write the log"
PUBLISH_SECONDS, UNCHANGED_SECONDS = 1.0, 10.0
"""Time between two publications of a status, and between those of one that stays the same."""
MAX_REFUSALS = 20
"""Commands that were refused, as they are published."""
MAX_REMARKS = 50
"""Remarks that wait for a log that cannot be written; the oldest are dropped."""


@dataclass(frozen=True, eq=False)
class CapturedState:
    """A state of a watch that may be saved once the results before its position are durable."""

    position: int
    tensors: Mapping[str, Tensor]
    about: Mapping[str, object]
    time: float


@dataclass(frozen=True)
class HostedStatus:
    """Status of a machine in its shard."""

    machine: str
    epoch: int
    position: int
    """Position of the next record."""
    now: float
    """Stream time."""
    windows: int
    learnt: int
    diagnosis: Diagnosis | None
    stopped: str | None
    """Why its watch cannot go on until the shard is restarted."""
    problems: tuple[Problem, ...]
    seconds: float
    """Time that its processing has taken in this shard, which placement takes for its weight."""


class HostedMachine:
    """Runs the watch of one machine; one thread works on it.

    The watch must be fresh; it resumes where the last owner of the machine saved its state. ``wake`` is called when
    there is new work.
    """

    def __init__(
        self, watch: Watch, log: MachineLog, states: MachineStates, results: ResultStore, wake: Callable[[], None]
    ) -> None:
        self.machine, self.states = watch.machine, states
        self._log, self._results = log, results
        self._queue = LogQueue(log, wake)
        self._received = ReceivedResults(watch.machine, results, is_shadow=log.is_shadow)
        self._remarks: deque[str] = deque(maxlen=MAX_REMARKS)
        self._retries = RetriedTasks(watch.machine, self._remarks.append)
        self._processor = EntryProcessor(
            watch, log, self._queue, states=states, results=self._received, remark=self._remarks.append
        )
        self._silence = SilenceTimer()
        self._restored = False
        self._captured_position: int | None = None
        self._seconds = 0.0
        self._refusals: deque[tuple[int, str]] = deque(maxlen=MAX_REFUSALS)
        self._shed = self._commanded = False
        """Whether the newest block was not learnt from, and whether a command was carried out since the last status."""
        self._published_time, self._published_position = -float("inf"), -1
        self.stopped: str | None = None
        """Why the watch cannot go on."""

    @property
    def has_work(self) -> bool:
        """Whether records wait, or the state is not loaded yet."""
        return self.stopped is None and (not self._restored or self._queue.waiting > 0)

    @property
    def position(self) -> int:
        """Position of the next record."""
        return self._queue.position

    @property
    def restored(self) -> bool:
        """Whether the state is loaded, so that the position means something."""
        return self._restored

    @property
    def unwritten(self) -> int:
        """Records whose results nobody has taken."""
        return len(self._received.results)

    def status(self) -> HostedStatus:
        """Return the status of the machine."""
        watch = self._processor.watch
        return HostedStatus(
            self.machine,
            self.states.epoch,
            self.position,
            watch.now,
            watch.counts.windows,
            watch.counts.learnt,
            self._received.diagnosis,
            self.stopped,
            self._retries.problems,
            self._seconds,
        )

    def work(self) -> bool:
        """Process the next record, if there is one and it is not put off; return whether to go on at once."""
        if self.stopped is not None or not self._retries.is_due(PROCESS):
            return False
        begun = time.perf_counter()
        try:
            done = self._processor.process()
        except Exception as error:  # whatever fails here must not end the shard
            if is_environmental(error):
                self._retries.fail(PROCESS, error)
            elif self._processor.leave_out(error):
                return True
            else:
                self.stopped = f"the watch stopped: {error!r}; restart the shard once this is repaired"
            return False
        self._retries.succeed(PROCESS)
        self._restored = True
        if done is not None:
            self._follow_up(done)
        self._seconds += time.perf_counter() - begun
        return done is not None

    def tick(self) -> None:
        """Write remarks and report silence, if this still is the owner of the machine and there is something to say."""
        if self.stopped is not None or not self._restored:
            return
        self._retries.attempt(APPEND, self._append_due)

    def take_results(self) -> ResultBatch:
        """Return the results since the last call, which the caller has to write, with a status that is due."""
        return ResultBatch(self.machine, self.states.epoch, self._received.take(), self._due_status())

    def capture(self) -> CapturedState | None:
        """Return the present state, to be saved once all results so far are durable; None if it is no other."""
        # Until a later record is processed, it is open whether the fault is in those that were skipped.
        if not self._restored or not self._processor.settled or self._processor.skipped.unconfirmed:
            return None
        if self.position in {self._captured_position, self._processor.saved_position}:
            return None
        self._captured_position = self.position
        watch = self._processor.watch
        tensors, rest = watch.state()
        about = {"watch": rest, "surroundings": environment(watch.signal.device)}
        return CapturedState(self.position, tensors, about, watch.now)

    @property
    def needs_state(self) -> bool:
        """Whether the watch continues without its saved states, so that it needs a new one soon."""
        return self._processor.started_afresh and self._captured_position is None

    def save(self, captured: CapturedState) -> None:
        """Save a state; the results before its position are durable."""
        self.states.save(captured.position, captured.tensors, captured.about, time=captured.time)
        self._processor.saved_position = captured.position

    def trim(self) -> None:
        """Let the log forget what no state needs any more."""
        positions = self.states.positions()
        if len(positions) >= REPLAYABLE_STATES:
            self._log.trim(min(positions[-REPLAYABLE_STATES:]))

    def close(self) -> None:
        """Receive no more records."""
        self._queue.close()

    def _due_status(self) -> str | None:
        """Return the status to be published; None while the one before is new enough."""
        passed = time.monotonic() - self._published_time
        news = self.position != self._published_position and (self._commanded or passed >= PUBLISH_SECONDS)
        if not self._restored or not (news or passed >= UNCHANGED_SECONDS):
            return None
        self._published_time, self._published_position, self._commanded = time.monotonic(), self.position, False
        published = PublishedMachine(
            self.states.epoch, self.position, time.time(), tuple(self._refusals), self._worker_status()
        )
        return published.to_text()

    def _worker_status(self) -> WorkerStatus:
        watch, problems = self._processor.watch, self._retries.problems
        return WorkerStatus(
            machine=self.machine,
            standing=watch.alarms.alarm_state,
            diagnosis=self._received.diagnosis,
            learning="frozen" if watch.frozen else "shed" if self._shed else "learning",
            waiting=self._queue.waiting * watch.block_seconds,
            refused=0,
            counts=watch.counts,
            now=watch.now,
            problem=self.stopped or "; ".join(dict.fromkeys(one.reason for one in problems)) or None,
            work="stopped" if self.stopped else "retrying" if problems else "working",
            problems=problems,
            commissioning=watch.commissioning,
            operation=watch.operation,
            measurements=watch.measurements,
            last_refused=watch.last_refused,
            refused_run=watch.refused_run,
            case=watch.alarms.case,
            frozen=watch.frozen,
        )

    def _follow_up(self, done: ProcessedEntry) -> None:
        entry, refused = done.entry, done.result.refused
        if isinstance(entry, JournalRecord) and entry.kind == COMMAND:
            self._commanded = True
            if refused:
                self._refusals.append((entry.position, refused))
        elif isinstance(entry, JournalRecord):
            self._shed = entry.kind == BLOCK_NOT_LEARNT
        if done.used:
            self._silence.restart()
        if not isinstance(done.entry, SkippedEntry) and self._processor.skipped.unconfirmed:
            self._retries.attempt(APPEND, lambda: self._processor.skipped.confirm(self._append))

    def _append_due(self) -> None:
        while self._remarks:
            self._append(Command("remark", SERVICE, self._remarks[0]))
            self._remarks.popleft()
        for command in self._silence.due_commands(self._processor.watch):
            # A machine that is behind is not silent.
            if not self._queue.waiting and self._log.end <= self.position:
                self._append(command)

    def _append(self, command: Command) -> None:
        """Write a command to the log, unless another shard owns the machine, which then says it itself."""
        if not self._results.write([ResultBatch(self.machine, self.states.epoch)]):
            self._log.append(command)


class ReceivedResults:
    """Results of one machine that wait to be written.

    Of a shadow, only diagnoses and their windows are kept: nobody must be alarmed by it.
    """

    def __init__(self, machine: str, store: ResultStore, *, is_shadow: bool = False) -> None:
        self._is_shadow = is_shadow
        self.results: list[tuple[int, WatchResult]] = []
        self.diagnosis: Diagnosis | None = None
        """The newest diagnosis; None before the first."""
        self._machine, self._store = machine, store

    def write(self, entry: Entry, result: WatchResult) -> None:
        """Take over what a record led to."""
        if self._is_shadow:
            diagnoses = tuple(event for event in result.events if isinstance(event, Diagnosis))
            result = WatchResult(diagnoses, result.ledger)
        if result.events:
            self.results.append((entry.position, result))
        for event in result.events:
            if isinstance(event, Diagnosis):
                self.diagnosis = event

    def take(self) -> tuple[tuple[int, WatchResult], ...]:
        """Return the results that wait, once."""
        taken, self.results = tuple(self.results), []
        return taken

    def continued_numbers(self) -> tuple[int, Case | None]:
        """Return the number of the next batch and the newest case, for a watch that starts afresh."""
        return self._store.continued_numbers(self._machine)
