"""The watch over one machine: every step between a block of samples and the events of its diagnosis.

A watch has no clock, no files and no threads. Given the same journal records
from the same state it returns bit-identical events, so a service may be killed at
any time. :meth:`Watch.state` is its whole state.

Blocks pass the continuity check, then their signal is diagnosed
(:class:`~cgsa.live.signal_diagnoser.SignalDiagnoser`) and the alarms are
updated, by the diagnosis and by levels above their limits. The method adapts
unless an operator has frozen it or the service was overloaded when the block
arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from cgsa.config import as_table, bind, stored_if_given
from cgsa.errors import BundleError, CgsaError, DataError, is_environmental
from cgsa.events import NO_DATA, OFF, Case, Diagnosis, Event, Note, Operation
from cgsa.ledger.columns import Columns
from cgsa.live.alarms import AlarmConfig, AlarmManager
from cgsa.live.commands import COMMISSIONING_NAMES, Command
from cgsa.live.intake.block import Block
from cgsa.live.intake.continuity import LATE, ContinuityGate
from cgsa.live.intake.refusals import Admission, Refusal, missing_data, refused_block, refused_windows
from cgsa.live.intermittent import LONGEST_PAUSE, IntermittentConfig, Measurements
from cgsa.live.levels.faults import level_faults
from cgsa.live.recent_signal import RecentSignal
from cgsa.live.refused_run import RefusedRun, extend_run
from cgsa.live.rejected_run import RejectedRun, follow_run
from cgsa.live.segments import Entry, LostRecords
from cgsa.live.signal_diagnoser import DiagnosedBatch, DiagnosisConfig
from cgsa.live.watch_notes import commissioning_key, operation_note
from cgsa.live.watched_signal import LocalSignal, SignalFactory, WatchedSignal
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.state import select_prefix

BLOCK, BLOCK_NOT_LEARNT, BLOCK_REPEATED, COMMAND = "block", "hurried", "repeated", "command"
"""Kinds of journal records. The method does not adapt to blocks that arrive while the service is overloaded; a repeated
one was sent again, since its sender did not get the answer."""
BLOCK_KINDS = frozenset({BLOCK, BLOCK_NOT_LEARNT, BLOCK_REPEATED})
FROZEN, OVERLOADED = "learning frozen", "too much to do"
"""Why the method did not adapt to a batch, as ledgers and events state it."""


@dataclass(frozen=True)
class WatchConfig(DiagnosisConfig):
    """How one machine is watched."""

    alarms: AlarmConfig = field(default_factory=AlarmConfig)
    intermittent: IntermittentConfig | None = None
    """None means that the machine is measured all the time."""

    @property
    def silence_seconds(self) -> float:
        """Seconds without data before an alarm is raised; between two measurements silence is expected."""
        return self.alarms.no_data_delay + (0.0 if self.intermittent is None else self.intermittent.every)


@dataclass(frozen=True, eq=False)
class WatchResult:
    """What one journal record led to."""

    events: tuple[Event, ...] = ()
    ledger: tuple[Columns, ...] = ()
    """The ledger rows of each batch."""
    refused: str | None = None
    """Why a command was refused."""


@dataclass(frozen=True)
class WatchCounts:
    """Totals since the watch began."""

    blocks: int = 0
    refused_blocks: int = 0
    gaps: int = 0
    batches: int = 0
    windows: int = 0
    flagged: int = 0
    """Windows that the quality gate rejected."""
    learnt: int = 0
    """Windows used for adaptation."""
    shed: int = 0
    """Windows that were diagnosed but not used for adaptation because the service was overloaded."""
    still: int = 0
    """Windows at standstill, which were not diagnosed."""
    lost: int = 0
    """Records of the journal that were damaged, or skipped after a fault of the program."""

    @property
    def used_blocks(self) -> int:
        """Blocks whose samples were used."""
        return self.blocks - self.refused_blocks


@dataclass(frozen=True)
class _WatchState:
    """The part of a state that is not tensors."""

    frozen: bool = False
    counts: WatchCounts = field(default_factory=WatchCounts)
    trouble: RejectedRun | None = None
    gate: Mapping[str, object] = field(default_factory=dict)
    desk: Mapping[str, object] = field(default_factory=dict)
    identity: Mapping[str, object] = field(default_factory=dict)
    commissioning: str = ""
    last_refused: Refusal | None = None
    measured_from: float | None = None
    refused_run: RefusedRun | None = field(default=None, metadata=stored_if_given())


class Watch:
    """Watches one machine.

    ``model`` identifies the bundle, for example by its hash: states of another model are refused. ``recall`` returns
    the tensors of an earlier state by its number, for rolling back. ``create_signal`` makes the diagnosis of the
    signal; by default it is computed in this process, on ``device``.
    """

    def __init__(
        self,
        machine: str,
        bundle: ModelBundle,
        config: WatchConfig,
        *,
        model: str = "",
        recall: Callable[[int], Mapping[str, Tensor]] | None = None,
        device: torch.device | str = "cpu",
        create_signal: SignalFactory | None = None,
    ) -> None:
        self.machine, self.config, self.bundle = machine, config, bundle
        create = create_signal or partial(LocalSignal, device=device)
        self.signal: WatchedSignal = create(bundle, config, source=machine)
        self._alarm_config = replace(config.alarms, no_data_delay=config.silence_seconds)
        self.alarms = AlarmManager(self._alarm_config, machine)
        self.counts = WatchCounts()
        self.frozen = False
        """Whether an operator has frozen the adaptation."""
        manifest = bundle.manifest
        pause = 0.0 if config.intermittent is None else LONGEST_PAUSE
        self._continuity = ContinuityGate(config.quality, manifest.channels, manifest.sample_rate, longest_pause=pause)
        self.admission = Admission(self._continuity, manifest.units, manifest.conditions)
        """Decides about blocks before they are in the journal; any thread may use it."""
        self.last_refused: Refusal | None = None
        """The newest data that were refused or are missing."""
        self._measured_from: float | None = None
        """Begin of the newest measurement."""
        self.refused_run: RefusedRun | None = None
        """The blocks refused since the last one in use; None if that was the newest."""
        self._rejected: RejectedRun | None = None
        self._commissioning = ""
        """The last noted state and cause."""
        self.commissioning = self.signal.commissioning
        """How far the commissioning is, for other threads; it follows from the state."""
        self._recall = recall
        self.latest: Block | None = None
        """The last accepted block, for display; not part of the state, and neither is the signal before it."""
        self.recent = RecentSignal()
        self._identity = {"model": model, **self.signal.identity}
        self._fresh = partial(
            Watch, machine, bundle, config, model=model, recall=recall, device=device, create_signal=create_signal
        )

    @property
    def now(self) -> float:
        """Time of the last sample, in seconds since 1970."""
        return self.signal.now

    @property
    def block_seconds(self) -> float:
        """Length of the last accepted block; 0 before the first."""
        return 0.0 if self.latest is None else self.latest.seconds

    @property
    def next_sequence(self) -> int:
        """Number of the block that continues the signal."""
        return self._continuity.next_sequence

    @property
    def operation(self) -> Operation | None:
        """Whether the machine runs; None if that is unknown."""
        return self.signal.operation

    @property
    def measurements(self) -> Measurements | None:
        """When the machine was measured; None if it is measured all the time."""
        return Measurements.of(self.config.intermittent, self._measured_from, self.now)

    def fresh(self, batches: int = 0, case: Case | None = None) -> Watch:
        """Return a watch as this one was made, before its first record; it follows on a batch number and a case."""
        watch = self._fresh()
        watch.counts = WatchCounts(batches=batches)
        watch.signal.count_from(batches, 0)
        watch.alarms = AlarmManager(self._alarm_config, self.machine, case)
        return watch

    def apply(self, entry: Entry) -> WatchResult:
        """Process the next journal record; if this raises, the record may have been applied in part."""
        events: list[Event] = []
        ledger: list[Columns] = []
        if isinstance(entry, LostRecords):
            self._count(lost=entry.end - entry.position)
            events.append(self._note("journal", str(entry)))
            self._record(self.signal.start_at(self.now, paused=FROZEN if self.frozen else OVERLOADED), events, ledger)
        elif entry.kind == COMMAND:
            try:
                command = Command.from_bytes(entry.payload)
                if command.name in {"end_recording", "readmit"}:
                    self._end_recording(command, events, ledger)
                elif command.name == "refuse":
                    events += self._refuse_submitted(command)
                # What is skipped has its note where the entry would have been.
                elif command.name != "skip":
                    events += self._execute(command)
            except CgsaError as error:
                if is_environmental(error):
                    raise
                # Nothing has changed, and the sender of the command gets the reason.
                return WatchResult(refused=str(error))
        else:
            try:
                block = entry.block or Block.from_bytes(entry.payload)
            except DataError as error:
                return WatchResult((self._note("journal", str(error)),))
            self._add_block(block, events, ledger, kind=entry.kind)
            if not ledger:
                # Buffered samples change nothing else.
                return WatchResult(tuple(events))
        self.commissioning = self.signal.commissioning
        return WatchResult(tuple(events), tuple(ledger))

    def state(self) -> tuple[dict[str, Tensor], dict[str, object]]:
        """Return everything that the next result depends on: copies of the tensors, and the rest as JSON values."""
        gate, desk = self._continuity.state_dict(), self.alarms.state()
        rest = _WatchState(
            self.frozen,
            self.counts,
            self._rejected,
            gate,
            desk,
            self._identity,
            self._commissioning,
            self.last_refused,
            self._measured_from,
            self.refused_run,
        )
        return self.signal.state_dict(), as_table(rest)

    def restore(self, tensors: Mapping[str, Tensor], rest: Mapping[str, object]) -> None:
        """Resume from what :meth:`state` returned."""
        state = bind(_WatchState, rest, f"state of {self.machine}", BundleError)
        # JSON turns tuples into lists, so both are compared as JSON.
        if as_table(replace(state, identity=self._identity)) != as_table(state):
            raise BundleError(f"state of {self.machine}: written with another model, method or setting")
        self.signal.load_state_dict(tensors)
        self.signal.count_from(state.counts.batches, state.counts.windows)
        self._continuity.load_state_dict(state.gate)
        self.alarms = AlarmManager.from_state(self._alarm_config, self.machine, state.desk)
        self.frozen, self.counts, self._rejected = state.frozen, state.counts, state.trouble
        self._commissioning = state.commissioning
        self.last_refused, self._measured_from = state.last_refused, state.measured_from
        self.refused_run = state.refused_run
        self.commissioning = self.signal.commissioning

    def _add_block(self, block: Block, events: list[Event], ledger: list[Columns], *, kind: str) -> None:
        """Check that a block continues the signal, and diagnose the batches that it completes."""
        first, admission = self._continuity.expects_first, self._continuity.check(block)
        self._count(blocks=1)
        if admission.samples is None:
            refusal = refused_block(block, admission.reason or LATE)
            events += self._refuse_block(refusal, block.seconds, repeated=kind == BLOCK_REPEATED)
            return
        self.latest, self.refused_run = block, None
        self.recent.add(block)
        overloaded = kind == BLOCK_NOT_LEARNT
        paused = FROZEN if self.frozen else OVERLOADED if overloaded else None
        gap = admission.gap
        if gap is not None:
            self._count(gaps=1)
            self.last_refused = missing_data(gap, block.time)
            text = f"{gap.reason}: {gap.blocks} blocks, {round(gap.seconds, 3):g} s"
            events.append(self._note("gap", text, blocks=gap.blocks, seconds=gap.seconds, reason=gap.reason))
        batches: list[DiagnosedBatch] = []
        if gap is not None or admission.pause is not None or first:
            batches += self.signal.start_at(block.time, paused=paused)
            self._measured_from = block.time
        if admission.pause is not None:
            self.signal.elapse(admission.pause)
        batches += self.signal.add(admission.samples, conditions=block.conditions, paused=paused)
        self._record(batches, events, ledger, overloaded=overloaded)

    def _refuse_block(self, refusal: Refusal, seconds: float, *, repeated: bool = False) -> tuple[Event, ...]:
        """Report a block that is not used; one that was sent again is nothing to alarm anybody about."""
        self._count(refused_blocks=1)
        self.last_refused = refusal
        events: list[Event] = [*self._follow_rejected(refusal.reason, refusal.time)]
        if not repeated:
            run = self.refused_run = extend_run(self.refused_run, refusal, seconds, self.now)
            # Whatever the blocks say of their time: nobody watches for as long as their signal lasts.
            time = self.now + run.seconds
            events += self.alarms.no_data(time)
            if run.lasts(self.config.alarms.refused_delay):
                events += self.alarms.observe_refused(time, run.text)
        return tuple(events)

    def _refuse_submitted(self, command: Command) -> tuple[Event, ...]:
        """Report a block that was refused when it was submitted; the command stands in its place."""
        time, number = command.number("time"), int(command.number("sequence"))
        # Older journals do not say how long a block was.
        seconds = command.number("seconds") if "seconds" in command.details else 0.0
        refusal = Refusal("block", time, command.text_of("reason"), command.text, number)
        self._count(blocks=1)
        return self._refuse_block(refusal, seconds)

    def _end_recording(self, command: Command, events: list[Event], ledger: list[Columns]) -> None:
        """Diagnose the last windows of a recording; the next block begins another one.

        If the sender is to be admitted anew, that block may have any number and any time.
        """
        if command.name == "readmit":
            run = self.refused_run
            before = "no block was refused before" if run is None else run.text
            details = {"who": command.who, "said": command.text, "refused": 0 if run is None else run.count}
            events.append(self._note("sender", f"the sender is admitted anew by {command.who}; {before}", **details))
            self._continuity.reset()
            self.refused_run = None
        else:
            self._continuity.interrupt()
        batches = self.signal.start_at(self.now, paused=FROZEN if self.frozen else None)
        self._record(batches, events, ledger, overloaded=False)

    def _record(
        self, batches: list[DiagnosedBatch], events: list[Event], ledger: list[Columns], *, overloaded: bool = True
    ) -> None:
        """Collect the events and ledger rows of diagnosed batches, and update the alarms."""
        for batch in batches:
            found, rejected = batch.event, sum(batch.event.flagged.values())
            shed = found.windows - rejected if overloaded else 0
            rejected -= batch.still
            self._count(
                batches=1, windows=found.windows, flagged=rejected, learnt=batch.learnt, shed=shed, still=batch.still
            )
            if batch.fault is not None:
                self.last_refused = refused_windows(batch.fault, found.begin, rejected)
            events += self._follow_rejected(batch.fault, found.begin, found.windows)
            self._report_commissioning(found, events)
            if batch.switched and found.operation is not None:
                events.append(operation_note(self.machine, found.end, found.operation))
            events += [Note(self.machine, found.end, "level", text) for text in batch.level_notes]
            events.append(found)
            ledger.append(batch.rows)
            if found.state == NO_DATA:
                events += self.alarms.no_data(found.end)
            elif found.state == OFF:
                events += self.alarms.observe_standstill(found.begin, found.end)
                continue
            else:
                events += self.alarms.observe(found.begin, found.end, found.alarm)
            events += self.alarms.observe_levels(found.end, level_faults(found.levels))

    def _execute(self, command: Command) -> tuple[Event, ...]:
        alarms, now, who, text = self.alarms, self.now, command.who, command.text
        if "case" in command.details and (alarms.case is None or alarms.case.number != command.details["case"]):
            raise DataError(f"{self.machine}: case {command.details['case']} is no longer the newest; reload")
        events: tuple[Event, ...]
        match command.name:
            case "acknowledge":
                events = alarms.acknowledge(now, who, text)
            case "shelve":
                events = alarms.shelve(now, who, seconds=command.number("seconds"), reason=text)
            case "unshelve":
                events = alarms.unshelve(now, who, text)
            case "close":
                events = alarms.close(now, who, text)
            case "comment":
                events = alarms.comment(now, who, text)
            case "label":
                begin, end, state = command.number("begin"), command.number("end"), command.text_of("state")
                events = alarms.label(now, who, state=state, begin=begin, end=end)
                learnt = self.signal.learn_label(state, begin, end)
                events += () if learnt is None else (self._note("label", learnt, state=state, begin=begin, end=end),)
            case "silence":
                events = alarms.no_data(now + command.number("seconds"))
            case "remark" | "clock":
                events = (self._note("service" if command.name == "remark" else "clock", text, **command.details),)
            case _:
                events = (self._change_learning(command),)
        return events

    def _change_learning(self, command: Command) -> Note:
        """Execute a command about the commissioning or the adaptation."""
        if command.name in COMMISSIONING_NAMES:
            return self._commission(command)
        match command.name:
            case "freeze" | "thaw":
                wanted = command.name == "freeze"
                if self.frozen == wanted:
                    raise DataError(f"learning of {self.machine} is already {'frozen' if wanted else 'active'}")
                self.frozen = wanted
                text = "learning is frozen" if wanted else "learning resumes"
            case "reset":
                self.signal.reset()
                text = "reset to the model as it was trained; the machine is assumed to be healthy now"
            case _:
                number = int(command.number("state"))
                if self._recall is None:
                    raise DataError(f"{self.machine}: no earlier states are kept; nothing to roll back to")
                self.signal.roll_back(select_prefix("method", self._recall(number)))
                text = f"rolled back to the model of state {number}"
        details = {"who": command.who, "said": command.text, **command.details}
        return self._note(command.name.replace("_", " "), f"{text}, by {command.who}", **details)

    def _commission(self, command: Command) -> Note:
        """Execute a command about the commissioning."""
        text = self.signal.commission(command)
        self._commissioning = commissioning_key(self.signal.commissioning)
        details = {"who": command.who, "said": command.text, **command.details}
        return self._note("commissioning", f"{text}, by {command.who}", **details)

    def _report_commissioning(self, found: Diagnosis, events: list[Event]) -> None:
        """Note why the commissioning waits, what it asks and how it ends, not each batch in between."""
        status, now = found.commissioning, commissioning_key(found.commissioning)
        # While the start is observed, the last cause stays: one that comes and goes is noted once.
        if status is None or now in {self._commissioning, "waiting"}:
            return
        self._commissioning = now
        details = {"state": status.state, "cause": status.cause}
        events.append(Note(self.machine, found.end, "commissioning", status.text, details))

    def _follow_rejected(self, reason: str | None, time: float, count: int = 1) -> tuple[Note, ...]:
        """Note where a run of rejected windows or blocks begins and ends, not each of them."""
        self._rejected, notes = follow_run(
            self._rejected, reason, time, machine=self.machine, now=self.now, count=count
        )
        return notes

    def _note(self, topic: str, text: str, **details: object) -> Note:
        return Note(self.machine, self.now, topic, text, details)

    def _count(self, **more: int) -> None:
        self.counts = replace(self.counts, **{name: getattr(self.counts, name) + n for name, n in more.items()})
