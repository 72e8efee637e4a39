"""The alarms of one machine, after ISA-18.2 and OPC UA Part 9: one open case at a time instead of an alarm flood.

Diagnoses fluctuate, and operators tire of notifications. So all alarms of a machine that are raised while a case is
open join that case, and a case notifies once. The effect of each input:

=============  ======================  =====================  ====================  =======
state          fault is active         returned to normal     acknowledge           close
=============  ======================  =====================  ====================  =======
normal         raised, **notifies**    normal                 refused               refused
raised         raised                  cleared                acknowledged          normal
acknowledged   raised if it is new     normal                 refused               normal
cleared        raised                  cleared                normal                normal
=============  ======================  =====================  ====================  =======

- A fault is *active* once it was diagnosed for ``on_delay`` seconds in total. Only ``off_delay`` consecutive healthy
  seconds reset that total: a fault that comes and goes faster than the delays is raised, too, once. Seconds without
  data count as neither.
- No data for ``no_data_delay`` seconds is a fault like any other, of low severity. Data clear it as health does.
- Blocks that are refused one after the other for ``refused_delay`` seconds are a fault of medium severity: data come,
  but nobody watches. Blocks in use clear it as health does.
- At standstill nothing is raised, and health is not counted either; only an alarm about missing or refused data
  is cleared.
- A level above a limit is a fault beside the diagnosis, whatever that says. It has lasted long enough when it is
  reported, and while there is one, health does not clear the alarm.
- Each fault joins an open case once. It notifies again only if it is more severe than all before; or if the case was
  acknowledged before and it is as severe, since nobody has acknowledged this fault yet. So apart from the few steps of
  severity, there are no more notifications than acknowledgements.
- A fault that returns within ``reopen_within`` seconds after its case was closed reopens it, and notifies.
- Any open case can be *shelved* for a while: it changes its state as usual, but does not notify. It is unshelved when
  the time is over, and notifies if it is raised then. A more severe fault unshelves it at once, since nobody shelved
  that fault; and closing a case ends its shelving.
- Closing a case by hand does not silence a machine: a fault still active after another ``on_delay`` reopens the case.

All times are passed in and come from one clock, that of the stream: replaying the inputs yields the same events.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Self, TypeAlias, get_args

from cgsa.config import as_table, bind, stored_as
from cgsa.decide.decision import UNKNOWN
from cgsa.errors import BundleError, ConfigError, DataError
from cgsa.events import NO_DATA, REFUSED, AlarmChange, Case, Change, Comment, Label, Severity
from cgsa.live.levels.faults import is_level_warning

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""In ascending order."""
DEFAULT_SEVERITIES: Mapping[str, Severity] = {NO_DATA: "low", REFUSED: "medium", UNKNOWN: "medium"}
"""Severities of faults that are not a class of the model; those are high."""
MAX_TEXT = 4000
"""Longest text of a user, in characters."""
VERSION = 1

AlarmEvent: TypeAlias = AlarmChange | Comment | Label
AlarmState: TypeAlias = Literal["normal", "raised", "acknowledged", "cleared", "shelved"]


@dataclass(frozen=True)
class AlarmConfig:
    """Delays and severities."""

    on_delay: float = 5.0
    """Seconds a fault must persist before an alarm is raised; each diagnosis already combines many windows."""
    off_delay: float = 60.0
    """Consecutive healthy seconds before the alarm is cleared."""
    no_data_delay: float = 60.0
    """Seconds without data before an alarm is raised."""
    refused_delay: float = 5.0
    """Seconds of signal in blocks that are refused one after the other before an alarm is raised."""
    reopen_within: float = 3600.0
    """Seconds after closing in which the same fault reopens a case."""
    longest_shelving: float = 86_400.0
    """Longest time in seconds for which a case can be shelved, so that none is shelved and forgotten."""
    severities: Mapping[str, Severity] = field(default_factory=dict)
    """Severities of faults by name, if they differ from the defaults."""

    def __post_init__(self) -> None:
        for name in ("on_delay", "off_delay", "no_data_delay", "refused_delay", "reopen_within", "longest_shelving"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} {getattr(self, name):g}; expected seconds, 0 or more")
        for fault, severity in self.severities.items():
            if severity not in SEVERITIES:
                raise ConfigError(f"severity {severity!r} of {fault!r}; expected one of {', '.join(SEVERITIES)}")

    def severity(self, fault: str) -> Severity:
        """Return the severity of a fault."""
        usual: Severity = "medium" if is_level_warning(fault) else "high"
        return self.severities.get(fault, DEFAULT_SEVERITIES.get(fault, usual))


@dataclass(frozen=True)
class _AlarmMemory:
    """Everything that the effect of the next input depends on."""

    version: int = VERSION
    data_until: float | None = field(default=None, metadata=stored_as("heard"))
    """Time of the last data; None before the first."""
    fault: str | None = field(default=None, metadata=stored_as("told"))
    """The fault of the last batch; it lasts until the next one."""
    fault_seconds: tuple[tuple[str, float], ...] = field(default=(), metadata=stored_as("stood"))
    """Seconds that each fault was diagnosed since the machine last returned to normal."""
    healthy_seconds: float = field(default=0.0, metadata=stored_as("quiet"))
    """Consecutive healthy seconds."""
    levels: tuple[tuple[str, float], ...] = ()
    """Levels above a limit, and the time from which each of them may be raised."""
    case: Case | None = None
    """The newest case, open or closed."""


class AlarmManager:
    """The alarms of one machine; it uses neither clock nor files, and equal inputs yield equal events.

    Every input returns the events it caused. A command that does not apply to the
    current state raises a :class:`DataError` and changes nothing.
    """

    def __init__(self, config: AlarmConfig, machine: str, case: Case | None = None) -> None:
        self.config = config
        self.machine = machine
        self._state = _AlarmMemory(case=case)

    @classmethod
    def from_state(cls, config: AlarmConfig, machine: str, state: Mapping[str, object]) -> Self:
        """Return a manager that continues from what :meth:`state` returned."""
        if state.get("version") != VERSION:
            raise BundleError(
                f"alarms of {machine}: state of version {state.get('version')!r}; this cgsa reads version {VERSION}"
            )
        manager = cls(config, machine)
        manager._state = bind(_AlarmMemory, state, f"alarms of {machine}", BundleError)
        return manager

    def state(self) -> dict[str, object]:
        """Return everything that the effect of the next input depends on, as JSON values."""
        return as_table(self._state)

    @property
    def case(self) -> Case | None:
        """The newest case, open or closed; None before the first."""
        return self._state.case

    @property
    def alarm_state(self) -> AlarmState:
        """The state of the open case; ``normal`` without one."""
        case = self.case
        if case is None or case.state == "closed":
            return "normal"
        return case.state if case.shelved_until is None else "shelved"

    def observe(self, begin: float, end: float, fault: str | None) -> tuple[AlarmEvent, ...]:
        """Process the diagnosis of the batch from ``begin`` to ``end``: a fault, or None for health."""
        if not (math.isfinite(begin) and math.isfinite(end) and begin <= end) or fault == "":
            raise DataError(
                f"alarms of {self.machine}: fault {fault!r} from {begin} to {end}; expected a name or None, and finite "
                "times in order"
            )
        state, update = self._state, self._begin(end)
        until = begin if state.data_until is None else state.data_until
        # Batches overlap by a window, and a clock that was set back must not stop all delays until it catches up.
        seconds = end - (max(begin, until) if end > until else begin)
        fault_seconds, healthy_seconds = dict(state.fault_seconds), state.healthy_seconds
        if state.fault is None:
            healthy_seconds += seconds
        else:
            fault_seconds[state.fault] = fault_seconds.get(state.fault, 0.0) + seconds
        if fault is not None:
            fault_seconds.setdefault(fault, 0.0)
            healthy_seconds = 0.0
            update.diagnose(fault, fault_seconds)
        elif healthy_seconds >= self.config.off_delay:
            fault_seconds = {}
            if not state.levels:
                update.clear()
        totals = tuple(fault_seconds.items())
        self._state = replace(state, data_until=end, fault=fault, fault_seconds=totals, healthy_seconds=healthy_seconds)
        return self._commit(update)

    def observe_levels(self, time: float, levels: Mapping[str, str]) -> tuple[AlarmEvent, ...]:
        """Process the levels that are above a limit at ``time``: the names of their faults, with a text each."""
        state = self._state
        if not levels and not state.levels:
            return ()
        update, known = self._begin(time), dict(state.levels)
        due = {fault: known.get(fault, time) for fault in levels}
        for fault, since in due.items():
            if time >= since:
                update.raise_fault(fault, levels[fault])
        if not due and state.fault is None and state.healthy_seconds >= self.config.off_delay:
            update.clear()
        self._state = replace(state, levels=tuple(due.items()))
        return self._commit(update)

    def observe_standstill(self, begin: float, end: float) -> tuple[AlarmEvent, ...]:
        """Process a batch of a machine at standstill: data have come, but say nothing about its health."""
        case = self.case
        if case is not None and case.active and set(case.faults) <= {NO_DATA, REFUSED}:
            return self.observe(begin, end, None)
        update = self._begin(end)
        self._state = replace(self._state, data_until=end, fault=None)
        return self._commit(update)

    def no_data(self, time: float) -> tuple[AlarmEvent, ...]:
        """Process that no data have come by ``time``; this raises and clears no fault except its own."""
        update = self._begin(time)
        until = time if self._state.data_until is None else min(time, self._state.data_until)
        self._state = replace(self._state, data_until=until)
        if time - until >= self.config.no_data_delay:
            update.raise_fault(NO_DATA)
            self._state = replace(self._state, healthy_seconds=0.0)
        return self._commit(update)

    def observe_refused(self, time: float, text: str) -> tuple[AlarmEvent, ...]:
        """Process that the blocks of the sender are refused and nobody watches the machine, with what is wrong."""
        update = self._begin(time)
        update.raise_fault(REFUSED, text)
        self._state = replace(self._state, healthy_seconds=0.0)
        return self._commit(update)

    def acknowledge(self, time: float, who: str, text: str = "") -> tuple[AlarmEvent, ...]:
        """Acknowledge the open case; a cleared case is closed by it."""
        update = self._begin(time, who, text)
        case = update.open_case("acknowledge")
        if case.state == "acknowledged":
            raise DataError(
                f"alarms of {self.machine}: case {case.number} is acknowledged already, by {case.acknowledged_by}"
            )
        if case.active:
            update.change(replace(case, state="acknowledged", acknowledged_by=who), "acknowledged")
        else:
            update.close(update.change(replace(case, acknowledged_by=who), "acknowledged"))
        return self._commit(update)

    def shelve(self, time: float, who: str, *, seconds: float, reason: str) -> tuple[AlarmEvent, ...]:
        """Suppress notifications of the open case for a while; shelving again restarts the time."""
        update = self._begin(time, who, reason)
        if not 0 < seconds <= self.config.longest_shelving:
            raise DataError(
                f"alarms of {self.machine}: shelved for {seconds:g} s; expected more than 0 and at most "
                f"{self.config.longest_shelving:g} s"
            )
        self._check_given("reason", reason)
        update.change(replace(update.open_case("shelve"), shelved_until=time + seconds), "shelved")
        return self._commit(update)

    def unshelve(self, time: float, who: str, text: str = "") -> tuple[AlarmEvent, ...]:
        """End the shelving of a case early."""
        update = self._begin(time, who, text)
        case = update.open_case("unshelve")
        if case.shelved_until is None:
            raise DataError(f"alarms of {self.machine}: case {case.number} is not shelved")
        update.unshelve(case)
        return self._commit(update)

    def close(self, time: float, who: str, text: str = "") -> tuple[AlarmEvent, ...]:
        """Close the open case in any state; all delays start again for faults that are still active."""
        update = self._begin(time, who, text)
        update.close(update.open_case("close"))
        until = None if self._state.data_until is None else time
        levels = tuple((fault, time + self.config.on_delay) for fault, _ in self._state.levels)
        self._state = replace(self._state, data_until=until, fault_seconds=(), healthy_seconds=0.0, levels=levels)
        return self._commit(update)

    def comment(self, time: float, who: str, text: str) -> tuple[AlarmEvent, ...]:
        """Comment on the newest case, open or closed."""
        update = self._begin(time, who, text)
        self._check_given("comment", text)
        if update.case is None:
            raise DataError(f"alarms of {self.machine}: there has been no case; nothing to comment on")
        return self._commit(update, Comment(self.machine, time, update.case.number, who, text))

    def label(self, time: float, who: str, *, state: str, begin: float, end: float) -> tuple[AlarmEvent, ...]:
        """Record the true state of the machine from ``begin`` to ``end``."""
        update = self._begin(time, who, state)
        self._check_given("label", state)
        if not (math.isfinite(begin) and math.isfinite(end) and begin < end):
            raise DataError(
                f"alarms of {self.machine}: label {state!r} from {begin} to {end}; expected finite times in order"
            )
        case = update.case.number if update.case is not None and update.case.open else None
        return self._commit(update, Label(self.machine, time, who, state, begin, end, case))

    def _begin(self, time: float, who: str | None = None, text: str = "") -> _CaseUpdate:
        """Start the update that an input at ``time`` makes; a case whose shelving is over is unshelved first."""
        if not math.isfinite(time):
            raise DataError(f"alarms of {self.machine}: time {time}; expected seconds of the stream")
        if who is not None:
            self._check_given("who", who)
            self._check_text("text", text)
        return _CaseUpdate(self.config, self.machine, self._state.case, time=time, who=who, text=text)

    def _commit(self, update: _CaseUpdate, *more: AlarmEvent) -> tuple[AlarmEvent, ...]:
        """Apply an update, now that nothing can refuse it any more."""
        self._state = replace(self._state, case=update.case)
        return (*update.events, *more)

    def _check_given(self, what: str, text: str) -> None:
        if not text.strip():
            raise DataError(f"alarms of {self.machine}: {what} is empty; expected a few words")
        self._check_text(what, text)

    def _check_text(self, what: str, text: str) -> None:
        if len(text) > MAX_TEXT:
            raise DataError(f"alarms of {self.machine}: {what} of {len(text)} characters; expected at most {MAX_TEXT}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            # JSON can contain half a surrogate pair, which could be neither stored nor sent.
            raise DataError(f"alarms of {self.machine}: {what} is not valid text ({error.reason})") from error


class _CaseUpdate:
    """The effect of one input on the case; it takes effect when the manager commits it."""

    def __init__(
        self, config: AlarmConfig, machine: str, case: Case | None, *, time: float, who: str | None, text: str
    ) -> None:
        self.case = case
        self.events: list[AlarmChange] = []
        self._config = config
        self._machine = machine
        self._time = time
        self._who: str | None = None
        self._text = ""
        if case is not None and case.shelved_until is not None and time >= case.shelved_until:
            self.unshelve(case)
        # Set afterwards: the time ended the shelving, not the user.
        self._who, self._text = who, text

    def open_case(self, command: str) -> Case:
        """Return the open case, or refuse the command."""
        if self.case is None or not self.case.open:
            raise DataError(f"alarms of {self._machine}: no case is open; nothing to {command}")
        return self.case

    def diagnose(self, fault: str, seconds: Mapping[str, float]) -> None:
        """Raise a fault that was diagnosed for long enough; ``seconds`` has the total of each fault."""
        if self.case is not None and self.case.active:
            if seconds[fault] >= self._config.on_delay:
                self.raise_fault(fault)
        elif math.fsum(seconds.values()) >= self._config.on_delay:
            # A diagnosis that alternates between two faults is a fault all the same; the longest one names it.
            self.raise_fault(max(seconds, key=lambda name: (seconds[name], name == fault)))

    def raise_fault(self, fault: str, text: str = "") -> None:
        """Raise a fault: in the open case, in one closed recently, or in a new one."""
        case, self._text = self.case, text
        if case is not None and case.open:
            if not case.active or fault not in case.faults:
                self._join(case, fault)
        elif case is not None and fault in case.faults and self._closed_recently(case):
            case = replace(case, state="raised", closed=None, acknowledged_by=None, raised=case.raised + 1)
            self.change(case, "reopened", fault, notify=True)
        else:
            number = 1 if case is None else case.number + 1
            severity = self._config.severity(fault)
            case = Case(number, "raised", severity, fault, (fault,), opened=self._time, changed=self._time)
            self.change(case, "opened", fault, notify=True)

    def _join(self, case: Case, fault: str) -> None:
        """Raise a fault in the open case."""
        severity = self._config.severity(fault)
        rank, current = SEVERITIES.index(severity), SEVERITIES.index(case.severity)
        escalates = rank > current
        unacknowledged = case.state == "acknowledged" and rank >= current
        if escalates and case.shelved_until is not None:
            case = self.change(replace(case, shelved_until=None), "unshelved")
        change: Change = "joined" if case.active else "raised"
        joined = replace(case, raised=case.raised + 1)
        if fault not in case.faults:
            joined = replace(joined, faults=(*case.faults, fault))
        if rank >= current:
            joined = replace(joined, fault=fault, severity=severity)
        if unacknowledged or not case.active:
            joined = replace(joined, state="raised", acknowledged_by=None)
        self.change(joined, change, fault, notify=escalates or unacknowledged)

    def clear(self) -> None:
        """Clear an active alarm; this closes a case that is acknowledged."""
        case = self.case
        if case is not None and case.active:
            cleared = self.change(replace(case, state="cleared"), "cleared")
            if case.state == "acknowledged":
                self.close(cleared)

    def close(self, case: Case) -> None:
        """Close the case and end its shelving."""
        self.change(replace(case, state="closed", closed=self._time, shelved_until=None), "closed")

    def unshelve(self, case: Case) -> None:
        """End the shelving; a notification that was put off is sent now."""
        self.change(replace(case, shelved_until=None), "unshelved", notify=case.state == "raised")

    def change(self, case: Case, change: Change, about: str = "", *, notify: bool = False) -> Case:
        """Record a changed case and its event; ``about`` defaults to the fault of the case."""
        notify = notify and case.shelved_until is None
        self.case = case = replace(case, changed=self._time, notified=case.notified + notify)
        fault = about or case.fault
        self.events.append(
            AlarmChange(self._machine, self._time, change, fault, notify, case, who=self._who, text=self._text)
        )
        return case

    def _closed_recently(self, case: Case) -> bool:
        return case.closed is not None and self._time - case.closed <= self._config.reopen_within
