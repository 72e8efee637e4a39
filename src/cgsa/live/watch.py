"""The watch over one machine: everything between a block of samples and what a person is told.

A watch has no clock, no files and no threads. Fed the same entries of a journal
from the same state it says the same, bit for bit; that is what lets a service
be killed at any moment. Its whole state is :meth:`Watch.state`.

A batch of windows goes through the quality gate first. Windows that cannot be
what the machine did are flagged with their reason: the method neither sees nor
remembers them, and where nothing else is left of a batch, the verdict is "no
data". The others are diagnosed, and learnt from unless learning is frozen or
the service had too much to do when the block came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from cgsa.config import as_table, bind
from cgsa.data.windows import overlapping
from cgsa.decide.decision import Decision, DecisionMaker
from cgsa.decide.filter import FilterConfig
from cgsa.diagnosis.diagnoser import tell
from cgsa.diagnosis.trust import FrozenModel, with_trust
from cgsa.errors import BundleError, CgsaError, ConfigError, DataError
from cgsa.events import NO_DATA, Diagnosis, Event, Note
from cgsa.ledger.columns import Columns
from cgsa.ledger.rows import Reasons, reasons, rows, with_flagged
from cgsa.live.alarms import AlarmConfig, AlarmManager
from cgsa.live.commands import Command
from cgsa.live.intake.block import Block
from cgsa.live.intake.continuity import BlockGate
from cgsa.live.intake.quality import WINDOW_REASONS, QualityConfig, WindowFlags, WindowGate
from cgsa.live.intake.windower import WindowBatch, Windower
from cgsa.live.journal import Entry, LostRecords
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.state import add_prefix, select_prefix
from cgsa.online import METHODS
from cgsa.online.base import StepOutput
from cgsa.profile import Profile

BLOCK, BLOCK_NOT_LEARNT, COMMAND = "block", "hurried", "command"
"""Kinds of records: a block; one from which nothing is learnt, for it came when there was too much to do; a command."""
FROZEN, SHED = "learning frozen", "too much to do"
"""Why nothing was learnt from any window of a batch."""


@dataclass(frozen=True)
class WatchConfig:
    """How one machine is watched."""

    method: str = "reference"
    settings: Mapping[str, object] = field(default_factory=dict)
    """What differs from the defaults of the method."""
    seed: int = 0
    batch_size: int = 256
    decide: FilterConfig = field(default_factory=FilterConfig)
    quality: QualityConfig = field(default_factory=QualityConfig)
    alarms: AlarmConfig = field(default_factory=AlarmConfig)

    @classmethod
    def of(cls, profile: Profile, method: str | None = None) -> WatchConfig:
        """Return how a profile watches."""
        chosen = method or profile.default_method
        return cls(
            method=chosen,
            settings=profile.method_settings(chosen),
            batch_size=profile.stream.batch_size,
            decide=profile.decide,
        )


@dataclass(frozen=True, eq=False)
class WatchResult:
    """What one entry of the journal led to."""

    events: tuple[Event, ...] = ()
    ledger: tuple[Columns, ...] = ()
    """Rows of each batch, one a window."""
    refused: str | None = None
    """Why a command was refused."""


@dataclass(frozen=True)
class WatchCounts:
    """What a watch has seen so far."""

    blocks: int = 0
    refused_blocks: int = 0
    gaps: int = 0
    batches: int = 0
    windows: int = 0
    flagged: int = 0
    """Windows that were not believed."""
    learnt: int = 0
    """Windows that were learnt from."""
    shed: int = 0
    """Windows that were diagnosed and not learnt from, since there was too much to do."""


@dataclass(frozen=True)
class _SensorFault:
    """A stretch of windows or blocks that were not believed for one reason."""

    reason: str
    since: float
    count: int = 0


@dataclass(frozen=True)
class _WatchState:
    """What of a state is no tensor."""

    frozen: bool = False
    counts: WatchCounts = field(default_factory=WatchCounts)
    trouble: _SensorFault | None = None
    gate: Mapping[str, object] = field(default_factory=dict)
    desk: Mapping[str, object] = field(default_factory=dict)
    identity: Mapping[str, object] = field(default_factory=dict)


class Watch:
    """Watches one machine.

    Parameters
    ----------
    machine
        Its name.
    bundle
        The model that diagnoses.
    config
        How.
    model
        What tells the bundle from others, such as its hash; a state is refused under another model.
    recall
        Returns the tensors of an earlier state by its number, for rolling back.
    device
        Where the method works.
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
    ) -> None:
        self.machine, self.config, self.bundle = machine, config, bundle
        about = bundle.manifest
        self.method = METHODS[config.method](bundle, config.settings, seed=config.seed, device=device)
        self.decision = DecisionMaker(config.decide, about)
        self.desk = AlarmManager(config.alarms, machine)
        self.counts = WatchCounts()
        self.frozen = False
        """Whether learning is frozen."""
        self._twin = FrozenModel(bundle, device=device, labels=self.method.source_labels)
        scale = bundle.network.frontend.get_buffer("mean").cpu(), bundle.network.frontend.get_buffer("deviation").cpu()
        self._windows = WindowGate(
            config.quality,
            about.window,
            len(about.channels),
            scale=(scale[0].numpy(), scale[1].numpy()),
            ties=about.usual_ties,
        )
        self._blocks = BlockGate(config.quality, about.channels, about.sample_rate)
        self._cutter = Windower(about.window, config.batch_size, len(about.channels), about.sample_rate)
        self._trouble: _SensorFault | None = None
        self._recall = recall
        self.latest: Block | None = None
        """The last block that was believed, for people to look at; no part of the state."""
        self._identity = {
            "model": model,
            "method": config.method,
            "settings": as_table(self.method.config),
            "seed": config.seed,
            "batch_size": config.batch_size,
            "decide": as_table(config.decide),
        }

    @property
    def now(self) -> float:
        """When the last sample was taken, in seconds since 1970."""
        return self._cutter.now

    def apply(self, entry: Entry) -> WatchResult:
        """Take in the next entry of the journal."""
        events: list[Event] = []
        ledger: list[Columns] = []
        if isinstance(entry, LostRecords):
            events.append(self._note("journal", str(entry)))
            self._diagnose(self._cutter.begin(self.now), events, ledger, learns=False)
        elif entry.kind == COMMAND:
            try:
                events += self._obey(Command.from_bytes(entry.payload))
            except CgsaError as error:
                # Nothing has changed, and whoever gave it hears why.
                return WatchResult(refused=str(error))
        else:
            try:
                block = Block.from_bytes(entry.payload)
            except DataError as error:
                return WatchResult((self._note("journal", str(error)),))
            self._take_in(block, events, ledger, learns=entry.kind == BLOCK)
        return WatchResult(tuple(events), tuple(ledger))

    def state(self) -> tuple[dict[str, Tensor], dict[str, object]]:
        """Return everything that the next outcome depends on: tensors as copies, the rest as JSON has it."""
        tensors = add_prefix("method", self.method.state_dict())
        tensors |= add_prefix("decision", self.decision.state_dict())
        tensors |= add_prefix("cutter", self._cutter.state_dict())
        tensors |= add_prefix("windows", self._windows.state_dict())
        rest = _WatchState(
            self.frozen, self.counts, self._trouble, self._blocks.state_dict(), self.desk.state(), self._identity
        )
        return tensors, as_table(rest)

    def restore(self, tensors: Mapping[str, Tensor], rest: Mapping[str, object]) -> None:
        """Go on from what :meth:`state` returned."""
        try:
            state = bind(_WatchState, rest, f"state of {self.machine}")
        except ConfigError as error:
            raise BundleError(str(error)) from error
        # Through JSON tuples become lists, and so both are compared as JSON.
        if as_table(replace(state, identity=self._identity)) != as_table(state):
            raise BundleError(f"state of {self.machine}: of another model, method or setting than the ones in use")
        self.method.load_state_dict(select_prefix("method", tensors))
        self.decision.load_state_dict(select_prefix("decision", tensors))
        self._cutter.load_state_dict(select_prefix("cutter", tensors))
        self._windows.load_state_dict(select_prefix("windows", tensors))
        self._blocks.load_state_dict(state.gate)
        self.desk = AlarmManager.from_state(self.config.alarms, self.machine, state.desk)
        self.frozen, self.counts, self._trouble = state.frozen, state.counts, state.trouble

    def _take_in(self, block: Block, events: list[Event], ledger: list[Columns], *, learns: bool) -> None:
        """Hold a block against those before it, and diagnose the batches that it completes."""
        admission = self._blocks.admit(block)
        self._count(blocks=1)
        if admission.samples is None:
            self._count(refused_blocks=1)
            self._trouble_is(admission.reason, block.time, events)
            events += self.desk.no_data(max(block.time, self.now))
            return
        self.latest = block
        if admission.gap is not None:
            self._count(gaps=1)
            gap = admission.gap
            text = f"{gap.reason}: {gap.blocks} blocks, {gap.seconds:.3f} s"
            events.append(self._note("gap", text, blocks=gap.blocks, seconds=gap.seconds, reason=gap.reason))
        if admission.gap is not None or self.counts.blocks - self.counts.refused_blocks == 1:
            self._diagnose(self._cutter.begin(block.time), events, ledger, learns=learns)
        self._diagnose(self._cutter.add(admission.samples), events, ledger, learns=learns)

    def _diagnose(self, cuts: list[WindowBatch], events: list[Event], ledger: list[Columns], *, learns: bool) -> None:
        for cut in cuts:
            flags = self._windows.check(cut.samples)
            self._trouble_is(_worst(flags, self.bundle.manifest.channels), cut.begin, events, len(flags.good))
            found, columns = self._batch(cut, flags, learns=learns)
            events.append(found)
            ledger.append(columns)
            if found.state == NO_DATA:
                events += self.desk.no_data(found.end)
            else:
                events += self.desk.observe(found.begin, found.end, found.alarm)

    def _batch(self, cut: WindowBatch, flags: WindowFlags, *, learns: bool) -> tuple[Diagnosis, Columns]:
        about = self.bundle.manifest
        spec, rate = about.window, about.sample_rate
        times = cut.begin + np.arange(cut.windows) * spec.step / rate
        learns_now = learns and not self.frozen
        said: StepOutput | None = None
        decided: Decision | None = None
        columns: Columns | None = None
        if flags.good.any():
            x = overlapping(torch.from_numpy(cut.samples), spec.length, spec.step)
            x = x if flags.good.all() else x[torch.from_numpy(flags.good)]
            said = self._twin.beside(x, self.method.step(x, learn=learns_now))
            decided = self.decision.step(said.probabilities, said.evidence)
            said = with_trust(said, decided, self.decision, about)
            why = reasons(self.method, said) if learns_now else _none_learnt(said, FROZEN if self.frozen else SHED)
            columns = rows(said, why, about.classes, first=0, time=times[flags.good], source=self.machine)
            if not learns:
                self._count(shed=len(x))
        columns = with_flagged(columns, flags, first=self.counts.windows, time=times, source=self.machine)
        flagged = Counter(WINDOW_REASONS[code] for code in flags.worst if code)
        event = tell(
            said,
            decided,
            self.decision,
            about.classes,
            batch=self.counts.batches,
            source=self.machine,
            span=(float(times[0]), float(times[-1]) + spec.length / rate),
            flagged=dict(flagged),
        )
        if not learns_now and event.trust is not None:
            note = f"{FROZEN if self.frozen else SHED}: {cut.windows} windows seen, none learnt from"
            event = replace(event, trust=replace(event.trust, note=note))
        learnt = 0 if said is None or said.accepted is None else int(said.accepted.sum())
        self._count(batches=1, windows=cut.windows, flagged=flagged.total(), learnt=learnt)
        return event, columns

    def _obey(self, command: Command) -> tuple[Event, ...]:
        desk, now, who, text = self.desk, self.now, command.who, command.text
        if "case" in command.details and (desk.case is None or desk.case.number != command.details["case"]):
            raise DataError(f"{self.machine}: case {command.details['case']} is not its newest any more; look again")
        told: tuple[Event, ...]
        match command.name:
            case "acknowledge":
                told = desk.acknowledge(now, who, text)
            case "shelve":
                told = desk.shelve(now, who, seconds=command.number("seconds"), reason=text)
            case "unshelve":
                told = desk.unshelve(now, who, text)
            case "close":
                told = desk.close(now, who, text)
            case "comment":
                told = desk.comment(now, who, text)
            case "label":
                begin, end = command.number("begin"), command.number("end")
                told = desk.label(now, who, state=command.word("state"), begin=begin, end=end)
            case "silence":
                told = desk.no_data(now + command.number("seconds"))
            case "remark":
                told = (self._note("service", text, **command.details),)
            case _:
                told = (self._steer(command),)
        return told

    def _steer(self, command: Command) -> Note:
        """Carry out a command about learning."""
        match command.name:
            case "freeze" | "thaw":
                wanted = command.name == "freeze"
                if self.frozen == wanted:
                    raise DataError(f"learning of {self.machine} is {'' if wanted else 'not '}frozen already")
                self.frozen = wanted
                text = "learning is frozen" if wanted else "learning goes on"
            case "reset":
                self.method.reset()
                self.decision.reset()
                text = "back to the model as it was trained; the machine is taken for healthy now"
            case _:
                number = int(command.number("state"))
                if self._recall is None:
                    raise DataError(f"{self.machine}: no earlier states are kept; nothing to roll back to")
                self.method.load_state_dict(select_prefix("method", self._recall(number)))
                text = f"the model is that of state {number} again"
        details = {"who": command.who, "said": command.text, **command.details}
        return self._note(command.name.replace("_", " "), f"{text}, by {command.who}", **details)

    def _trouble_is(self, reason: str | None, time: float, events: list[Event], count: int = 1) -> None:
        """Tell where a stretch that is not believed begins and where it ends, and not of every window in between."""
        before = self._trouble
        if before is not None and before.reason == reason:
            self._trouble = replace(before, count=before.count + count)
            return
        if before is not None:
            text = f"{before.reason} is over after {max(0.0, time - before.since):.2f} s"
            events.append(self._note("sensor", text, reason=before.reason, since=before.since))
        if reason is not None:
            events.append(self._note("sensor", f"{reason}; not believed and not learnt from", reason=reason))
        self._trouble = None if reason is None else _SensorFault(reason, time, count)

    def _note(self, topic: str, text: str, **details: object) -> Note:
        return Note(self.machine, self.now, topic, text, details)

    def _count(self, **more: int) -> None:
        self.counts = replace(self.counts, **{name: getattr(self.counts, name) + n for name, n in more.items()})


def _worst(flags: WindowFlags, channels: tuple[str, ...]) -> str | None:
    """Return what is wrong with most windows, and on which channels; none where all are good."""
    found = Counter(WINDOW_REASONS[code] for code in flags.worst if code)
    if not found:
        return None
    reason = found.most_common(1)[0][0]
    where = (flags.codes == WINDOW_REASONS.index(reason)).any(axis=1)
    return f"{reason} on {', '.join(name for name, bad in zip(channels, where, strict=True) if bad)}"


def _none_learnt(output: StepOutput, why: str) -> Reasons:
    return torch.zeros(len(output.probabilities), dtype=torch.int64), (why,)
