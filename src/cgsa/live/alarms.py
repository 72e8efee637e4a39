"""The alarms of one machine: one open case at a time, not a flood, and no fault that goes unseen.

Decisions waver, and people tire of being called. So all alarms of a machine that come while a case is open join that
case, and a case calls somebody once. What each input does, after ISA-18.2 and OPC UA Part 9:

=============  ======================  ===================  ====================  =======
state          a fault stands          health stands        acknowledge           close
=============  ======================  ===================  ====================  =======
normal         raised, **called**      normal               refused               refused
raised         raised                  cleared              acknowledged          normal
acknowledged   raised if it is new     normal               refused               normal
cleared        raised                  cleared              normal                normal
=============  ======================  ===================  ====================  =======

- A fault *stands* once it was told for ``on_delay`` seconds in all. Only health for ``off_delay`` seconds on end makes
  these seconds be forgotten: a fault that comes and goes faster than the delays is raised too, once. Seconds without
  data count for neither.
- No data for ``no_data_delay`` seconds is a fault as any other, of low severity. Data clear it as health does.
- Each fault joins an open case once. It calls somebody again only if it is graver than all before; or if the case was
  acknowledged before it came and it is as grave: nobody has answered for this one yet. So no more calls go out than
  people answer, but for the few steps of severity.
- A fault that comes back within ``reopen_within`` seconds after its case was closed reopens it, and calls.
- Any open case can be *shelved* for a while: it goes through its states as ever, but calls nobody. It comes back when
  the time is over, and calls if it then is raised. A graver fault brings it back at once, since nobody shelved that;
  and shelving ends with its case.
- Closing by hand does not silence a machine: what still stands after another ``on_delay`` reopens the case.

All times are handed in, of one clock, that of the stream: whoever replays the inputs gets the same events.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias, get_args

from cgsa.config import as_table, bind
from cgsa.decide.decision import UNKNOWN
from cgsa.errors import BundleError, ConfigError, DataError
from cgsa.events import NO_DATA, AlarmChange, Case, Change, Comment, Label, Severity

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""From the least to the gravest."""
USUAL: Mapping[str, Severity] = {NO_DATA: "low", UNKNOWN: "medium"}
"""Severities that differ from that of a fault with a name, which is high."""
MAX_TEXT = 4000
"""Characters of what a person says."""
VERSION = 1

DeskEvent: TypeAlias = AlarmChange | Comment | Label
Standing: TypeAlias = Literal["normal", "raised", "acknowledged", "cleared", "shelved"]


@dataclass(frozen=True)
class AlarmConfig:
    """When people are called, and how urgently."""

    on_delay: float = 5.0
    """Seconds that a fault is told before it is raised; the decision has joined many windows already."""
    off_delay: float = 60.0
    """Seconds of health on end before it is cleared."""
    no_data_delay: float = 60.0
    """Seconds without data before that is an alarm of its own."""
    reopen_within: float = 3600.0
    """Seconds after a case was closed in which the same fault reopens it."""
    longest_shelving: float = 86_400.0
    """Seconds that a case can be shelved at once: what is shelved for ever is forgotten."""
    severities: Mapping[str, Severity] = field(default_factory=dict)
    """Severities of faults by their names, where they differ from the usual ones."""

    def __post_init__(self) -> None:
        for name in ("on_delay", "off_delay", "no_data_delay", "reopen_within", "longest_shelving"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} {getattr(self, name):g}; expected seconds, 0 or more")
        for fault, severity in self.severities.items():
            if severity not in SEVERITIES:
                raise ConfigError(f"severity {severity!r} of {fault!r}; expected one of {', '.join(SEVERITIES)}")

    def severity(self, fault: str) -> Severity:
        """Return how grave a fault is."""
        return self.severities.get(fault, USUAL.get(fault, "high"))


@dataclass(frozen=True)
class _AlarmState:
    """Everything that the next input depends on."""

    version: int = VERSION
    heard: float | None = None
    """Until when there were data; none before the first."""
    told: str | None = None
    """The fault that the last batch told of; it holds until the next one tells otherwise."""
    stood: tuple[tuple[str, float], ...] = ()
    """Seconds that each fault was told since health last stood."""
    quiet: float = 0.0
    """Seconds of health on end."""
    case: Case | None = None
    """The newest case, open or closed."""


class AlarmManager:
    """The alarms of one machine; without clock and files, and the same for the same inputs.

    Every input returns what it changed. A command that makes no sense as things
    stand raises a :class:`DataError` and changes nothing.

    Parameters
    ----------
    config
        Delays and severities.
    machine
        Name that the events carry.
    """

    def __init__(self, config: AlarmConfig, machine: str) -> None:
        self.config = config
        self.machine = machine
        self._state = _AlarmState()

    @classmethod
    def from_state(cls, config: AlarmConfig, machine: str, state: Mapping[str, object]) -> Self:
        """Return a desk that goes on from what :meth:`state` returned."""
        if state.get("version") != VERSION:
            raise BundleError(
                f"alarms of {machine}: state of version {state.get('version')!r}; this cgsa reads version {VERSION}"
            )
        desk = cls(config, machine)
        try:
            desk._state = bind(_AlarmState, state, f"alarms of {machine}")
        except ConfigError as error:
            raise BundleError(str(error)) from error
        return desk

    def state(self) -> dict[str, object]:
        """Return everything that the next input depends on, as JSON has it."""
        return as_table(self._state)

    @property
    def case(self) -> Case | None:
        """The newest case, open or closed; none before the first."""
        return self._state.case

    @property
    def standing(self) -> Standing:
        """What to show of the machine in a word."""
        case = self.case
        if case is None or case.state == "closed":
            return "normal"
        return case.state if case.shelved_until is None else "shelved"

    def observe(self, begin: float, end: float, fault: str | None) -> tuple[DeskEvent, ...]:
        """Take in what the batch from ``begin`` to ``end`` tells of at its end: a fault, or none."""
        if not (math.isfinite(begin) and math.isfinite(end) and begin <= end) or fault == "":
            raise DataError(
                f"alarms of {self.machine}: fault {fault!r} from {begin} to {end}; expected a name or none, and finite "
                "times in order"
            )
        state, turn = self._state, self._turn(end)
        heard = begin if state.heard is None else state.heard
        # Batches overlap by a window, and a clock that was set back must not stop all delays until it catches up.
        seconds = end - (max(begin, heard) if end > heard else begin)
        stood, quiet = dict(state.stood), state.quiet
        if state.told is None:
            quiet += seconds
        else:
            stood[state.told] = stood.get(state.told, 0.0) + seconds
        if fault is not None:
            stood.setdefault(fault, 0.0)
            quiet = 0.0
            turn.hear(fault, stood)
        elif quiet >= self.config.off_delay:
            stood = {}
            turn.clear()
        return self._take(turn, heard=end, told=fault, stood=tuple(stood.items()), quiet=quiet)

    def no_data(self, time: float) -> tuple[DeskEvent, ...]:
        """Take in that nothing has come by now; that neither raises nor clears any fault but its own."""
        turn = self._turn(time)
        heard = time if self._state.heard is None else min(time, self._state.heard)
        if time - heard < self.config.no_data_delay:
            return self._take(turn, heard=heard)
        turn.arise(NO_DATA)
        return self._take(turn, heard=heard, quiet=0.0)

    def acknowledge(self, time: float, who: str, text: str = "") -> tuple[DeskEvent, ...]:
        """Answer for what the case tells of; one that is cleared is closed by it."""
        turn = self._turn(time, who, text)
        case = turn.open_case("acknowledge")
        if case.state == "acknowledged":
            raise DataError(
                f"alarms of {self.machine}: case {case.number} is acknowledged already, by {case.acknowledged_by}"
            )
        if case.active:
            turn.tell(case, "acknowledged", state="acknowledged", acknowledged_by=who)
        else:
            turn.close(turn.tell(case, "acknowledged", acknowledged_by=who))
        return self._take(turn)

    def shelve(self, time: float, who: str, *, seconds: float, reason: str) -> tuple[DeskEvent, ...]:
        """Let the open case call nobody for a while; one that is shelved already is shelved anew."""
        turn = self._turn(time, who, reason)
        if not 0 < seconds <= self.config.longest_shelving:
            raise DataError(
                f"alarms of {self.machine}: shelved for {seconds:g} s; expected more than 0 and at most "
                f"{self.config.longest_shelving:g} s"
            )
        self._check_said("reason", reason)
        case = turn.open_case("shelve")
        turn.tell(case, "shelved", shelved_until=time + seconds)
        return self._take(turn)

    def unshelve(self, time: float, who: str, text: str = "") -> tuple[DeskEvent, ...]:
        """Bring a shelved case back before its time."""
        turn = self._turn(time, who, text)
        case = turn.open_case("unshelve")
        if case.shelved_until is None:
            raise DataError(f"alarms of {self.machine}: case {case.number} is not shelved, or no longer")
        turn.unshelve(case)
        return self._take(turn)

    def close(self, time: float, who: str, text: str = "") -> tuple[DeskEvent, ...]:
        """Close the open case whatever its state; what still stands has all its delays before it again."""
        turn = self._turn(time, who, text)
        turn.close(turn.open_case("close"))
        heard = None if self._state.heard is None else time
        return self._take(turn, heard=heard, stood=(), quiet=0.0)

    def comment(self, time: float, who: str, text: str) -> tuple[DeskEvent, ...]:
        """Say something of the newest case, open or closed."""
        turn = self._turn(time, who, text)
        self._check_said("comment", text)
        if turn.case is None:
            raise DataError(f"alarms of {self.machine}: there never was a case; nothing to comment on")
        return self._take(turn, Comment(self.machine, time, turn.case.number, who, text))

    def label(self, time: float, who: str, *, state: str, begin: float, end: float) -> tuple[DeskEvent, ...]:
        """Say what the machine really had from ``begin`` to ``end``."""
        turn = self._turn(time, who, state)
        self._check_said("label", state)
        if not (math.isfinite(begin) and math.isfinite(end) and begin < end):
            raise DataError(
                f"alarms of {self.machine}: label {state!r} from {begin} to {end}; expected finite times in order"
            )
        case = turn.case.number if turn.case is not None and turn.case.open else None
        return self._take(turn, Label(self.machine, time, who, state, begin, end, case))

    def _turn(self, time: float, who: str | None = None, text: str = "") -> _CaseUpdate:
        """Return what an input at ``time`` begins with: a case whose shelving is over comes back first."""
        if not math.isfinite(time):
            raise DataError(f"alarms of {self.machine}: time {time}; expected seconds of the stream")
        if who is not None:
            self._check_said("who", who)
            self._check_text("text", text)
        return _CaseUpdate(self.config, self.machine, self._state.case, time=time, who=who, text=text)

    def _take(self, turn: _CaseUpdate, *said: DeskEvent, **changes: Any) -> tuple[DeskEvent, ...]:
        """Take over what an input did, now that nothing can refuse it any more."""
        self._state = replace(self._state, case=turn.case, **changes)
        return (*turn.events, *said)

    def _check_said(self, what: str, text: str) -> None:
        if not text.strip():
            raise DataError(f"alarms of {self.machine}: {what} is empty; expected a few words")
        self._check_text(what, text)

    def _check_text(self, what: str, text: str) -> None:
        if len(text) > MAX_TEXT:
            raise DataError(f"alarms of {self.machine}: {what} of {len(text)} characters; expected at most {MAX_TEXT}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            # Half a character, as JSON can smuggle it in, could neither be stored nor sent.
            raise DataError(f"alarms of {self.machine}: {what} is no proper text ({error.reason})") from error


class _CaseUpdate:
    """What one input does to the case; nothing of it holds before the desk takes it over."""

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
        # Only now: it was the time that brought the case back, no person.
        self._who, self._text = who, text

    def open_case(self, command: str) -> Case:
        """Return the open case, or refuse the command."""
        if self.case is None or not self.case.open:
            raise DataError(f"alarms of {self._machine}: no case is open; nothing to {command}")
        return self.case

    def hear(self, fault: str, stood: Mapping[str, float]) -> None:
        """Raise or join what was told for long enough."""
        if self.case is not None and self.case.active:
            if stood[fault] >= self._config.on_delay:
                self.arise(fault)
        elif math.fsum(stood.values()) >= self._config.on_delay:
            # While it wavers between two names it is a fault all the same; the one told longest names it.
            self.arise(max(stood, key=lambda name: (stood[name], name == fault)))

    def arise(self, fault: str) -> None:
        """Raise a fault: in the open case, in one that was just closed, or in a new one."""
        case = self.case
        if case is not None and case.open:
            if not case.active or fault not in case.faults:
                self._join(case, fault)
        elif case is not None and fault in case.faults and self._was_just_closed(case):
            back: dict[str, Any] = {"state": "raised", "closed": None, "acknowledged_by": None}
            self.tell(case, "reopened", fault, notify=True, raised=case.raised + 1, **back)
        else:
            number = 1 if case is None else case.number + 1
            severity = self._config.severity(fault)
            fresh = Case(number, "raised", severity, fault, (fault,), opened=self._time, changed=self._time)
            self.tell(fresh, "opened", fault, notify=True)

    def _join(self, case: Case, fault: str) -> None:
        """Raise a fault in the open case."""
        severity = self._config.severity(fault)
        rank, so_far = SEVERITIES.index(severity), SEVERITIES.index(case.severity)
        grows = rank > so_far
        unanswered = case.state == "acknowledged" and rank >= so_far
        if grows and case.shelved_until is not None:
            case = self.tell(case, "unshelved", shelved_until=None)
        changes: dict[str, Any] = {"raised": case.raised + 1}
        if fault not in case.faults:
            changes["faults"] = (*case.faults, fault)
        if rank >= so_far:
            changes |= {"fault": fault, "severity": severity}
        if unanswered or not case.active:
            changes |= {"state": "raised", "acknowledged_by": None}
        self.tell(case, "joined" if case.active else "raised", fault, notify=grows or unanswered, **changes)

    def clear(self) -> None:
        """Clear the alarm where one stands; that closes a case which somebody has answered for."""
        case = self.case
        if case is not None and case.active:
            cleared = self.tell(case, "cleared", state="cleared")
            if case.state == "acknowledged":
                self.close(cleared)

    def close(self, case: Case) -> None:
        """Close the case, and end its shelving with it."""
        self.tell(case, "closed", state="closed", closed=self._time, shelved_until=None)

    def unshelve(self, case: Case) -> None:
        """Bring a shelved case back; whoever put off a call wants it now."""
        self.tell(case, "unshelved", notify=case.state == "raised", shelved_until=None)

    def tell(self, case: Case, change: Change, about: str = "", *, notify: bool = False, **changes: Any) -> Case:
        """Return the case with its changes, and say so; it is about the case's own fault where none is named."""
        case = replace(case, changed=self._time, **changes)
        notify = notify and case.shelved_until is None
        self.case = replace(case, notified=case.notified + notify)
        self.events.append(
            AlarmChange(
                machine=self._machine,
                time=self._time,
                change=change,
                fault=about or case.fault,
                notify=notify,
                case=self.case,
                who=self._who,
                text=self._text,
            )
        )
        return self.case

    def _was_just_closed(self, case: Case) -> bool:
        return case.closed is not None and self._time - case.closed <= self._config.reopen_within
