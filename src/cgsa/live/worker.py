"""One machine under watch, for as long as the service lives and longer.

Whatever reaches a worker is in its journal before anything is done with it, and
what comes of it depends on the journal alone. So the worker may be killed at
any moment: the next one takes up the newest sound state and goes on from the
entry after it, and says what this one would have said.

Anybody may submit blocks and give commands, from any thread. One thread, that
of the worker's lane, does the work. Under too much of it a worker goes on
diagnosing every window and learns from none; which blocks that befell stands in
the journal, too.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np
from torch import Tensor

from cgsa.errors import BundleError, ConfigError, DataError, OverloadError
from cgsa.events import AlarmChange, Comment, Diagnosis, Event, Label, Note
from cgsa.ledger.columns import Columns
from cgsa.live.checkpoint import Checkpoints, RestoredState, SavedState, surroundings
from cgsa.live.commands import Command
from cgsa.live.intake.block import Block
from cgsa.live.journal import Entry, Journal, JournalRecord, LostRecords
from cgsa.live.store import Snippet, Store
from cgsa.live.store import StoredDiagnosis as ToldOf
from cgsa.live.watch import BLOCK, BLOCK_NOT_LEARNT, COMMAND, Watch, WatchCounts

SERVICE = "service"
"""Who gives the commands that no person gives."""
MOST_HELD = 256
"""Entries that wait in memory; more of them wait in the journal alone."""
GENERATIONS = 3
"""The journal reaches back to the last but so many states: should one be damaged, the one before it can go on."""
LOOK_SECONDS = 600.0
"""A state that a person looks at stays so long after the last look..."""
MOST_LOOKED_AT = 4
"""...if it is one of so many: to look costs room on the disk."""


@dataclass(frozen=True)
class WorkerConfig:
    """How a worker works."""

    checkpoint_seconds: float = 10.0
    """At least this long between two states; after a kill no more than that has to be done again."""
    shed_above: float = 2.0
    """Seconds of signal that may wait before learning is shed..."""
    shed_below: float = 0.5
    """...until no more than this wait."""
    most_waiting: float = 120.0
    """Seconds of signal that may wait at all; further blocks are refused until there is room."""
    snippet_before: float = 4.0
    """Seconds of signal that are kept from before an alarm..."""
    snippet_after: float = 1.0
    """...and from after it."""

    def __post_init__(self) -> None:
        if not 0 <= self.shed_below <= self.shed_above < self.most_waiting or self.checkpoint_seconds <= 0:
            raise ConfigError(
                f"checkpoint_seconds {self.checkpoint_seconds:g}, shed_below {self.shed_below:g}, shed_above "
                f"{self.shed_above:g}, most_waiting {self.most_waiting:g}; expected positive seconds in growing order"
            )
        if min(self.snippet_before, self.snippet_after) < 0:
            raise ConfigError("snippet_before and snippet_after; expected seconds, 0 or more")


@dataclass(frozen=True, eq=False)
class WorkerStatus:
    """How a machine and its watch stand."""

    machine: str
    standing: str
    """Of its alarms, in a word."""
    diagnosis: Diagnosis | None
    """The newest; none before the first."""
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
    """What a person has to look after; none where all is well."""


class Worker:
    """Keeps one machine's watch, its journal and its states.

    Parameters
    ----------
    watch
        Fresh; it takes up where the last worker on this folder stopped.
    folder
        Of the machine.
    store
        Takes what there is to tell.
    config
        How.
    hear
        Told of all that is new, in the worker's lane: the position, and what the entry there led to. Nothing is told
        twice while a service lives; of what a killed one had done since its last state, it hears again.
    wake
        Called when there is something to work on.
    """

    def __init__(
        self,
        watch: Watch,
        folder: Path,
        store: Store,
        *,
        config: WorkerConfig | None = None,
        hear: Callable[[int, tuple[Event, ...]], None] | None = None,
        wake: Callable[[], None] | None = None,
    ) -> None:
        self.watch, self.folder, self.config = watch, folder, config or WorkerConfig()
        self._store = store
        self._hear, self._wake = hear, wake
        self._states = Checkpoints(folder / "states")
        self._journal = Journal(folder / "journal")
        self._lock = Lock()
        self._held: deque[Entry] = deque()
        self._reading: Iterator[Entry] | None = None
        self._awaited: dict[int, Future[None]] = {}
        self._recalled: dict[int, int] = {}
        """States that were rolled back to, with the position at which."""
        self._looked_at: dict[int, float] = {}
        """States that people look at, with when they last did."""
        self._wanted: list[tuple[float, int, AlarmChange]] = []
        """Alarms whose waveform is to be kept once enough has come after them."""
        self._last: Diagnosis | None = None
        self._problem: str | None = None
        self._gave_up = False
        self._block_seconds = 0.0
        self._refused = 0
        self._shedding = False
        self._heard_at = time.monotonic()
        self._silences = 0
        """How often silence was told since the last block."""
        self._saved_at = time.monotonic()
        self._position = self._saved_position = -1
        self._behind = True
        """Whether entries wait that are in the journal alone."""
        self._take_up()
        self._behind = self._catching_up = self._position < self._journal.end

    @property
    def machine(self) -> str:
        """Name of the machine."""
        return self.watch.machine

    @property
    def position(self) -> int:
        """Of the next entry to work on."""
        return self._position

    @property
    def waits(self) -> bool:
        """Whether there is anything to work on."""
        return self._position < self._journal.end

    @property
    def waiting(self) -> float:
        """Seconds of signal that wait to be diagnosed."""
        return (self._journal.end - self._position) * self._block_seconds

    def status(self) -> WorkerStatus:
        """Return how the machine and its watch stand."""
        watch = self.watch
        learning = "frozen" if watch.frozen else "shed" if self._shedding else "learning"
        return WorkerStatus(
            machine=self.machine,
            standing=watch.alarms.standing,
            diagnosis=self._last,
            learning="catching up" if self._catching_up else learning,
            waiting=self.waiting,
            refused=self._refused,
            counts=watch.counts,
            now=watch.now,
            problem=self._problem,
        )

    def states(self) -> tuple[SavedState, ...]:
        """Return what states can be rolled back to, the oldest first."""
        return self._states.states()

    def state(self, number: int) -> RestoredState:
        """Return one of them with its tensors, and keep it: whoever looks at it may want to go back to it."""
        found = self._states.load(number)
        self.hold(number)
        return found

    def hold(self, number: int) -> None:
        """Keep a state for somebody who looks at it: it must not go while they make up their mind."""
        with self._lock:
            looked_at = {**self._looked_at, number: time.monotonic()}
            latest = sorted(looked_at, key=looked_at.__getitem__)[-MOST_LOOKED_AT:]
            self._looked_at = {state: looked_at[state] for state in latest}

    def submit(self, block: Block) -> int:
        """Take a block into the journal, and return its position there."""
        if block.machine != self.machine:
            raise DataError(f"block of {block.machine} sent to {self.machine}; expected its own")
        payload = block.to_bytes()
        with self._lock:
            self._block_seconds = block.seconds
            self._heard_at, self._silences = time.monotonic(), 0
            waiting = self.waiting
            if waiting > self.config.most_waiting:
                self._refused += 1
                raise OverloadError(
                    f"{self.machine}: {waiting:.0f} s of signal wait already; send this block again later"
                )
            self._weigh(waiting)
            return self._append(BLOCK_NOT_LEARNT if self._shedding else BLOCK, payload)

    def command(self, command: Command) -> Future[None]:
        """Take a command into the journal; the future tells when it was carried out, or why it was refused."""
        if command.name == "roll_back":
            wanted, there = int(command.number("state")), [saved.number for saved in self.states()]
            if wanted not in there:
                known = f"{there[0]} to {there[-1]}" if there else "none"
                raise DataError(f"{self.machine}: there is no state {wanted}; there are {known}")
        done: Future[None] = Future()
        with self._lock:
            self._awaited[self._journal.end] = done
            try:
                self._append(COMMAND, command.to_bytes())
            except BaseException:
                del self._awaited[self._journal.end]
                raise
        return done

    def work(self) -> bool:
        """Work on the next entry, if there is one; return whether there was."""
        entry = self._next()
        if entry is None:
            return False
        told = self.watch.apply(entry)
        self._position = entry.end
        if isinstance(entry, JournalRecord) and entry.kind == COMMAND and not told.refused:
            self._remember(entry)
        self._project(entry, told.events, told.ledger)
        if self._hear is not None and told.events:
            self._hear(entry.position, told.events)
        self._answer(entry, told.refused)
        return True

    def tick(self) -> None:
        """Look after what time brings: states, snippets, silence."""
        now = time.monotonic()
        silent, delay = now - self._heard_at, self.watch.config.alarms.no_data_delay
        if silent > delay * (self._silences + 1) and self.watch.counts.blocks:
            self._silences += 1
            self.command(Command("silence", SERVICE, details={"seconds": silent}))
        self._keep_snippets()
        if now - self._saved_at >= self.config.checkpoint_seconds:
            self.save()

    def save(self) -> None:
        """Save a state, unless nothing has happened since the last one."""
        self._saved_at = time.monotonic()
        if self._position == self._saved_position:
            return
        tensors, rest = self.watch.state()
        about = {"watch": rest, "surroundings": surroundings(self.watch.signal.method.device)}
        try:
            self._journal.sync()
            self._states.save(self._position, tensors, about, time=self.watch.now, protect=self._protected())
            self._saved_position = self._position
            self._forget()
            self._problem = None
        except (BundleError, DataError) as error:
            # The journal holds everything; only the time to take it up again grows until there is room.
            self._problem = str(error)

    def give_up(self, why: str) -> None:
        """Tell why no more is worked on; blocks still go into the journal."""
        self._problem, self._gave_up = why, True
        for future in self._awaited.values():
            future.cancel()

    def close(self) -> None:
        """Save what there is, and let another process take over."""
        # A state in the middle of an entry must not be kept; the journal goes on from the last whole one.
        if not self._gave_up:
            self.save()
        self._journal.close()
        for future in self._awaited.values():
            future.cancel()

    def _take_up(self) -> None:
        """Go on from the newest state that fits."""
        remarks = list(self._journal.notes)
        restored = self._states.newest()
        remarks += self._states.notes
        self._position = self._journal.begin
        if restored is not None:
            try:
                self.watch.restore(restored.tensors, _table(restored.saved.about, "watch"))
                self._position = self._saved_position = restored.saved.position
                self._journal.advance(self._position)
            except BundleError as error:
                # A model that was changed on purpose begins anew, with what comes from now on.
                remarks.append(f"{error}; the watch begins anew")
                self._position = self._journal.end
        elif self._position > 0:
            remarks.append(f"no sound state is left; the watch begins anew at entry {self._position} of the journal")
        for text in remarks:
            self._append(COMMAND, Command("remark", SERVICE, text).to_bytes())

    def _next(self) -> Entry | None:
        """Return the next entry: from memory, or from the journal where more wait than memory holds."""
        with self._lock:
            if self._held and not self._behind:
                return self._held.popleft()
            if self._position == self._journal.end:
                self._behind = self._catching_up = False
                self._reading = None
                return None
        if self._reading is None:
            self._held.clear()
            self._reading = self._journal.read(self._position)
        entry = next(self._reading, None)
        if entry is None:
            # More has come since the reading began.
            self._reading = None
            return self._next()
        return entry

    def _append(self, kind: str, payload: bytes) -> int:
        position = self._journal.append(kind, payload)
        if not self._behind:
            self._held.append(JournalRecord(position, kind, payload))
            self._behind = len(self._held) > MOST_HELD
        if self._wake is not None:
            self._wake()
        return position

    def _weigh(self, waiting: float) -> None:
        """Decide whether the next block is learnt from, and tell when that changes."""
        if self._catching_up:
            # What waits since a restart is not too much work; it was merely put off.
            return
        if not self._shedding and waiting > self.config.shed_above:
            self._shedding = True
            self._append(COMMAND, Command("remark", SERVICE, f"{waiting:.1f} s behind: learning is shed").to_bytes())
        elif self._shedding and waiting < self.config.shed_below:
            self._shedding = False
            self._append(COMMAND, Command("remark", SERVICE, "caught up: learning goes on").to_bytes())

    def _remember(self, entry: JournalRecord) -> None:
        """Keep what a command about learning needs should it have to be carried out again."""
        command = Command.from_bytes(entry.payload)
        if command.name == "roll_back":
            self._recalled[entry.position] = int(command.number("state"))
        if command.name in {"roll_back", "reset", "freeze", "thaw"}:
            self._saved_at = -float("inf")

    def _protected(self) -> frozenset[int]:
        """Return the states that must not go yet."""
        since = time.monotonic() - LOOK_SECONDS
        looked_at = (state for state, moment in self._looked_at.items() if moment > since)
        return frozenset(looked_at) | frozenset(self._recalled.values())

    def _forget(self) -> None:
        kept = [saved.position for saved in self._states.states()][-GENERATIONS:]
        oldest = min(kept, default=0)
        self._recalled = {position: state for position, state in self._recalled.items() if position >= oldest}
        self._journal.forget(oldest)

    def _project(self, entry: Entry, events: tuple[Event, ...], ledger: tuple[Columns, ...]) -> None:
        """Hand what there is to tell to the store."""
        rows = iter(ledger)
        for index, event in enumerate(events):
            if isinstance(event, Diagnosis):
                columns = next(rows)
                flagged = sum(event.flagged.values())
                self._store.add_diagnosis(ToldOf(self.machine, event, flagged, _mean_response(columns)))
                self._store.add_ledger(self.machine, event.batch, columns)
                self._last = event
            elif isinstance(event, AlarmChange | Comment | Label | Note):
                self._store.add(entry.position, index, event)
                if isinstance(event, AlarmChange) and event.notify:
                    self._wanted.append((event.time, entry.position, event))

    def _keep_snippets(self) -> None:
        """Keep the waveform around alarms after which enough has come."""
        due = [item for item in self._wanted if self.watch.now >= item[0] + self.config.snippet_after]
        for moment, position, change in due:
            self._wanted.remove((moment, position, change))
            snippet = self._cut(moment, position, change.case.number)
            if snippet is not None:
                self._store.add(position, 0, snippet)

    def _cut(self, moment: float, position: int, case: int) -> Snippet | None:
        """Read the waveform around a moment from the journal."""
        reach = 2 + int(self.config.snippet_before / max(self._block_seconds, 1e-3))
        begin = max(self._journal.begin, position - 2 * reach)
        first, last = moment - self.config.snippet_before, moment + self.config.snippet_after
        blocks: list[Block] = []
        for entry in self._journal.read(begin):
            if isinstance(entry, LostRecords) or entry.kind == COMMAND or entry.position >= self._position:
                continue
            block = Block.from_bytes(entry.payload)
            fits = block.time + block.seconds > first and block.time < last
            if fits and (not blocks or block.channels == blocks[0].channels):
                blocks.append(block)
        if not blocks:
            return None
        samples = np.concatenate([block.samples for block in blocks], axis=1)
        return Snippet(self.machine, blocks[0].time, case, blocks[0].sample_rate, blocks[0].channels, samples)

    def _answer(self, entry: Entry, refused: str | None) -> None:
        future = self._awaited.pop(entry.position, None)
        if future is None or not future.set_running_or_notify_cancel():
            return
        if refused is None:
            future.set_result(None)
        else:
            future.set_exception(DataError(refused))


def _mean_response(columns: Columns) -> float | None:
    """Return the mean residual response of a batch; the first condition's where there are several."""
    for name, column in columns.items():
        if name.startswith("response") and isinstance(column, np.ndarray) and np.isfinite(column).any():
            return float(np.nanmean(column))
    return None


def _table(about: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = about.get(name)
    if not isinstance(found, Mapping):
        raise BundleError(f"a state without {name!r}; it is none of a worker")
    return found


def recall_from(folder: Path) -> Callable[[int], Mapping[str, Tensor]]:
    """Return what finds the tensors of an earlier state in a machine's folder."""
    states = Checkpoints(folder / "states")
    return lambda number: states.load(number).tensors
