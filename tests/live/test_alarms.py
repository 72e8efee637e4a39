from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cgsa.config import bind
from cgsa.errors import BundleError, ConfigError, DataError
from cgsa.events import NO_DATA, AlarmChange, Comment, Label
from cgsa.live.alarms import MAX_TEXT, SEVERITIES, AlarmConfig, AlarmEvent, AlarmManager

CONFIG = AlarmConfig(
    on_delay=5, off_delay=20, no_data_delay=30, reopen_within=100, severities={"rattle": "medium", "hum": "low"}
)
FAULTS = ("crack", "wear", "rattle", "hum", "unknown")
LEVEL, WARNING = "level alarm: x rms", "level warning: x rms"


class Machine:
    """A machine diagnosed once per second, and all events of its alarm manager."""

    def __init__(self, config: AlarmConfig = CONFIG) -> None:
        self.manager = AlarmManager(config, "pump")
        self.time = 0.0
        self.events: list[AlarmEvent] = []

    def has(self, fault: str | None, seconds: int) -> list[str]:
        """Be diagnosed with a fault, or as healthy, for some seconds; return the changes."""
        begin = len(self.events)
        for _ in range(seconds):
            self.events += self.manager.observe(self.time, self.time + 1, fault)
            self.time += 1
        return changes_of(self.events[begin:])

    def is_silent(self, seconds: int) -> list[str]:
        begin = len(self.events)
        for _ in range(seconds):
            self.time += 1
            self.events += self.manager.no_data(self.time)
        return changes_of(self.events[begin:])

    def has_levels(self, *faults: str, diagnosed: str | None = None, seconds: int = 1) -> list[str]:
        """Have levels above a limit beside a diagnosis for some seconds; return the changes."""
        begin = len(self.events)
        for _ in range(seconds):
            self.has(diagnosed, 1)
            self.events += self.manager.observe_levels(self.time, dict.fromkeys(faults, "x rms 3 g, alarm limit 2 g"))
        return changes_of(self.events[begin:])

    def does(self, command: Callable[..., tuple[AlarmEvent, ...]], *arguments: object, **named: object) -> list[str]:
        events = command(self.time, "eve", *arguments, **named)
        self.events += events
        return changes_of(events)

    @property
    def notifications(self) -> int:
        return sum(isinstance(event, AlarmChange) and event.notify for event in self.events)

    @property
    def state(self) -> str:
        return self.manager.alarm_state


def changes_of(events: Sequence[AlarmEvent]) -> list[str]:
    """Return the changes; one that notifies is in capitals."""
    return [
        (event.change.upper() if event.notify else event.change) if isinstance(event, AlarmChange) else event.kind
        for event in events
    ]


def raised(fault: str = "crack") -> Machine:
    machine = Machine()
    assert machine.has(fault, 6) == ["OPENED"]
    return machine


def test_a_fault_is_raised_after_its_delay_and_health_clears_it_after_its_own() -> None:
    machine = Machine()
    assert machine.has(None, 30) == []
    assert machine.has("crack", 5) == []
    assert machine.has("crack", 1) == ["OPENED"]
    assert machine.state == "raised"
    assert machine.has("crack", 100) == []
    assert machine.has(None, 20) == []
    assert machine.has(None, 1) == ["cleared"]
    assert machine.state == "cleared"
    case = machine.manager.case
    assert case is not None
    assert (case.number, case.fault, case.severity, case.raised, case.notified) == (1, "crack", "high", 1, 1)
    assert (case.opened, case.changed, case.closed) == (36.0, 157.0, None)


def test_delays_of_zero_act_at_once() -> None:
    machine = Machine(AlarmConfig(on_delay=0, off_delay=0, no_data_delay=0))
    assert machine.has("crack", 1) == ["OPENED"]
    assert machine.has(None, 1) == ["cleared"]
    assert machine.is_silent(1) == ["raised"]
    assert machine.has(None, 1) == ["cleared"]


def test_an_acknowledged_alarm_closes_when_it_clears() -> None:
    machine = raised()
    assert machine.does(machine.manager.acknowledge, "on my way") == ["acknowledged"]
    assert machine.state == "acknowledged"
    last = machine.events[-1]
    assert isinstance(last, AlarmChange)
    assert (last.who, last.text, last.case.acknowledged_by) == ("eve", "on my way", "eve")
    assert machine.has(None, 30) == ["cleared", "closed"]
    assert machine.state == "normal"


def test_a_cleared_alarm_closes_when_it_is_acknowledged() -> None:
    machine = raised()
    machine.has(None, 30)
    assert machine.does(machine.manager.acknowledge) == ["acknowledged", "closed"]
    assert machine.state == "normal"
    assert machine.manager.case is not None
    assert machine.manager.case.closed == machine.time


def test_after_a_case_was_closed_a_later_fault_opens_a_new_one() -> None:
    machine = raised()
    machine.does(machine.manager.acknowledge)
    machine.has(None, 21 + 101)
    assert machine.has("crack", 6) == ["OPENED"]
    assert machine.manager.case is not None
    assert (machine.manager.case.number, machine.manager.case.raised) == (2, 1)


def test_a_fault_that_returns_soon_reopens_its_case_and_notifies() -> None:
    machine = raised()
    machine.does(machine.manager.acknowledge)
    machine.has(None, 50)
    assert machine.has("crack", 6) == ["REOPENED"]
    case = machine.manager.case
    assert case is not None
    assert (case.number, case.raised, case.notified, case.acknowledged_by, case.closed) == (1, 2, 2, None, None)
    # Not acknowledged yet: it comes and goes without notifying again.
    assert [machine.has(fault, 30) for fault in (None, "crack") * 2] == [["cleared"], ["raised"]] * 2
    assert machine.notifications == 2


def test_another_fault_soon_after_a_case_was_closed_opens_a_new_case() -> None:
    machine = raised()
    machine.does(machine.manager.acknowledge)
    machine.has(None, 30)
    assert machine.has("wear", 6) == ["OPENED"]
    assert machine.manager.case is not None
    assert machine.manager.case.number == 2


def test_intermittent_faults_are_raised_but_single_blips_are_not() -> None:
    machine = Machine()
    for _ in range(5):
        assert machine.has("crack", 1) + machine.has(None, 10) == []
    assert machine.has("crack", 1) == ["OPENED"]
    rare = Machine()
    for _ in range(50):
        assert rare.has("crack", 1) + rare.has(None, 22) == []


def test_a_fault_that_alternates_between_classes_gets_the_longest_one() -> None:
    machine = Machine()
    machine.has("wear", 1)
    machine.has("crack", 4)
    assert machine.has("wear", 1) == ["OPENED"]
    assert machine.manager.case is not None
    assert machine.manager.case.fault == "crack"
    # Seconds before the alarm was raised count: the other fault joins once it reaches the delay as well.
    assert machine.has("wear", 4) == ["joined"]
    assert machine.manager.case.faults == ("crack", "wear")


def test_further_faults_join_the_case_once_without_notifying() -> None:
    machine = raised("crack")
    assert machine.has("wear", 6) == ["joined"]
    assert [machine.has(fault, 10) for fault in ("crack", "wear", "crack")] == [[], [], []]
    case = machine.manager.case
    assert case is not None
    assert (case.faults, case.fault, case.raised, machine.notifications) == (("crack", "wear"), "wear", 2, 1)


def test_a_more_severe_fault_notifies_again_and_a_less_severe_one_changes_nothing() -> None:
    machine = raised("hum")
    assert machine.has("rattle", 6) == ["JOINED"]
    assert machine.has("crack", 6) == ["JOINED"]
    assert machine.has("unknown", 6) == ["joined"]
    case = machine.manager.case
    assert case is not None
    assert (case.severity, case.fault, case.notified) == ("high", "crack", 3)
    assert case.faults == ("hum", "rattle", "crack", "unknown")


def test_a_second_fault_after_an_acknowledgement_notifies() -> None:
    machine = raised("crack")
    machine.does(machine.manager.acknowledge)
    assert machine.has("rattle", 6) == ["joined"]
    assert machine.state == "acknowledged"
    assert machine.has("wear", 6) == ["JOINED"]
    assert machine.state == "raised"
    assert machine.manager.case is not None
    assert machine.manager.case.acknowledged_by is None
    machine.does(machine.manager.acknowledge)
    # Both are acknowledged now: neither notifies again.
    assert machine.has("crack", 30) + machine.has("wear", 30) == []


def test_a_more_severe_fault_revokes_an_acknowledgement() -> None:
    machine = raised("hum")
    machine.does(machine.manager.acknowledge)
    assert machine.has("crack", 6) == ["JOINED"]
    assert machine.state == "raised"


def test_missing_data_raise_an_alarm_and_data_clear_it() -> None:
    machine = Machine()
    machine.has(None, 5)
    assert machine.is_silent(29) == []
    assert machine.is_silent(100) == ["OPENED"]
    assert machine.manager.case is not None
    assert (machine.manager.case.fault, machine.manager.case.severity) == (NO_DATA, "low")
    assert machine.has(None, 19) == []
    assert machine.is_silent(40) == []
    # Healthy seconds must be consecutive: missing data interrupt them.
    assert machine.has(None, 19) == []
    assert machine.has(None, 1) == ["cleared"]


def test_missing_data_before_the_first_batch_raise_an_alarm() -> None:
    machine = Machine()
    assert machine.is_silent(30) == []
    assert machine.is_silent(1) == ["OPENED"]


def test_missing_data_neither_raise_nor_clear_a_fault() -> None:
    machine = Machine()
    machine.has("crack", 4)
    assert machine.is_silent(29) == []
    assert machine.has("crack", 1) == []
    assert machine.has("crack", 1) == ["OPENED"]
    assert machine.is_silent(1000) == ["joined"]
    assert machine.state == "raised"
    assert machine.manager.case is not None
    assert machine.manager.case.fault == "crack"
    assert machine.has("crack", 100) == []
    assert machine.has(None, 21) == ["cleared"]


def test_a_gap_in_time_counts_for_no_delay() -> None:
    machine = Machine()
    machine.has("crack", 2)
    machine.time += 1e6
    assert machine.has("crack", 3) == []
    assert machine.has("crack", 1) == ["OPENED"]
    machine.has(None, 2)
    machine.time += 1e6
    assert machine.has(None, 18) == []
    assert machine.has(None, 1) == ["cleared"]


def test_a_clock_that_is_set_back_stops_no_delay() -> None:
    machine = Machine()
    machine.has(None, 50)
    machine.has("crack", 3)
    machine.time = -1e6
    assert machine.has("crack", 3) == ["OPENED"]
    machine.time = -2e6
    assert machine.has(None, 21) == ["cleared"]
    machine.time = -3e6
    assert machine.is_silent(31) == ["raised"]


def test_overlapping_batches_count_every_second_once() -> None:
    machine = Machine()
    events: list[AlarmEvent] = []
    for end in range(10, 60):
        events += machine.manager.observe(end / 10 - 1, end / 10, "crack")
    assert changes_of(events) == []
    assert changes_of(machine.manager.observe(5.0, 6.0, "crack")) == ["OPENED"]


def test_a_shelved_case_does_not_notify_and_is_unshelved_in_time() -> None:
    machine = raised("rattle")
    assert machine.does(machine.manager.shelve, seconds=200, reason="new bearing on order") == ["shelved"]
    assert machine.state == "shelved"
    last = machine.events[-1]
    assert isinstance(last, AlarmChange)
    assert (last.case.shelved_until, last.text) == (206.0, "new bearing on order")
    assert machine.has(None, 30) + machine.has("unknown", 30) == ["cleared", "raised"]
    assert machine.has("rattle", 139) == []
    assert machine.has("rattle", 1) == ["UNSHELVED"]
    assert machine.state == "raised"
    back = machine.events[-1]
    assert isinstance(back, AlarmChange)
    assert (back.who, back.text) == (None, "")


def test_a_case_that_is_not_raised_is_unshelved_without_notifying() -> None:
    acknowledged = raised()
    acknowledged.does(acknowledged.manager.shelve, seconds=60, reason="known")
    acknowledged.does(acknowledged.manager.acknowledge)
    assert acknowledged.has("crack", 60) == ["unshelved"]
    over = raised()
    over.does(over.manager.shelve, seconds=60, reason="known")
    assert over.has(None, 60) == ["cleared", "unshelved"]
    assert acknowledged.notifications == over.notifications == 1


def test_a_second_fault_of_a_shelved_case_notifies_when_it_is_unshelved() -> None:
    machine = raised()
    machine.does(machine.manager.acknowledge)
    machine.does(machine.manager.shelve, seconds=60, reason="known")
    assert machine.has("wear", 59) == ["joined"]
    assert machine.has("wear", 1) == ["UNSHELVED"]


def test_a_more_severe_fault_unshelves_a_case_at_once() -> None:
    machine = Machine()
    machine.is_silent(31)
    machine.does(machine.manager.shelve, seconds=1000, reason="sensor is at the workshop")
    assert machine.has("crack", 6) == ["unshelved", "JOINED"]
    assert machine.state == "raised"


def test_shelving_ends_by_command_and_when_the_case_closes() -> None:
    machine = raised()
    machine.does(machine.manager.shelve, seconds=50, reason="a")
    machine.does(machine.manager.shelve, seconds=1000, reason="b")
    assert machine.has("crack", 100) == []
    assert machine.does(machine.manager.unshelve) == ["UNSHELVED"]
    machine.does(machine.manager.shelve, seconds=1000, reason="c")
    machine.does(machine.manager.acknowledge)
    machine.has(None, 30)
    assert machine.state == "normal"
    assert machine.has("crack", 6) == ["REOPENED"]


def test_a_command_after_the_shelving_time_sees_an_unshelved_case() -> None:
    machine = raised()
    machine.does(machine.manager.shelve, seconds=10, reason="a")
    machine.time += 10
    with pytest.raises(DataError, match="case 1 is not shelved"):
        machine.does(machine.manager.unshelve)
    assert machine.state == "shelved"
    assert machine.does(machine.manager.acknowledge) == ["UNSHELVED", "acknowledged"]


def test_closing_by_command_does_not_silence_an_active_fault() -> None:
    machine = raised()
    assert machine.does(machine.manager.close, "false alarm") == ["closed"]
    assert machine.has("crack", 4) == []
    assert machine.has("crack", 1) == ["REOPENED"]
    assert machine.does(machine.manager.close) == ["closed"]
    assert machine.has(None, 1000) == []
    quiet = Machine()
    quiet.has(None, 1)
    quiet.is_silent(30)
    assert quiet.does(quiet.manager.close) == ["closed"]
    assert quiet.is_silent(29) == []
    assert quiet.is_silent(1) == ["REOPENED"]


def test_users_comment_and_label() -> None:
    machine = raised()
    assert machine.does(machine.manager.comment, "grinds") == ["comment"]
    machine.does(machine.manager.label, state="loose bolt", begin=0.0, end=6.0)
    machine.does(machine.manager.close)
    machine.does(machine.manager.comment, "bolt tightened")
    machine.does(machine.manager.label, state="healthy", begin=6.0, end=7.0)
    said = [event for event in machine.events if not isinstance(event, AlarmChange)]
    assert said == [
        Comment("pump", 6.0, 1, "eve", "grinds"),
        Label("pump", 6.0, "eve", "loose bolt", 0.0, 6.0, 1),
        Comment("pump", 6.0, 1, "eve", "bolt tightened"),
        Label("pump", 6.0, "eve", "healthy", 6.0, 7.0, None),
    ]


def commands(manager: AlarmManager) -> dict[str, Callable[[], tuple[AlarmEvent, ...]]]:
    return {
        "acknowledge": lambda: manager.acknowledge(9.0, "eve"),
        "shelve": lambda: manager.shelve(9.0, "eve", seconds=10, reason="a"),
        "unshelve": lambda: manager.unshelve(9.0, "eve"),
        "close": lambda: manager.close(9.0, "eve"),
        "comment": lambda: manager.comment(9.0, "eve", "a"),
    }


@pytest.mark.parametrize("command", ["acknowledge", "shelve", "unshelve", "close", "comment"])
def test_commands_without_a_case_are_refused(command: str) -> None:
    manager = AlarmManager(CONFIG, "pump")
    with pytest.raises(DataError, match=r"alarms of pump: .*nothing to"):
        commands(manager)[command]()
    assert manager.state() == AlarmManager(CONFIG, "pump").state()


def test_invalid_commands_change_nothing() -> None:
    machine = raised()
    machine.does(machine.manager.acknowledge)
    manager, before = machine.manager, machine.manager.state()
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: manager.acknowledge(9.0, "eve"), "acknowledged already, by eve"),
        (lambda: manager.unshelve(9.0, "eve"), "case 1 is not shelved"),
        (lambda: manager.shelve(9.0, "eve", seconds=0, reason="a"), "more than 0 and at most 86400"),
        (lambda: manager.shelve(9.0, "eve", seconds=1e9, reason="a"), "more than 0 and at most 86400"),
        (lambda: manager.shelve(9.0, "eve", seconds=math.nan, reason="a"), "more than 0"),
        (lambda: manager.shelve(9.0, "eve", seconds=1, reason=" "), "reason is empty"),
        (lambda: manager.comment(9.0, "eve", ""), "comment is empty"),
        (lambda: manager.comment(9.0, "", "a"), "who is empty"),
        (lambda: manager.comment(9.0, "eve", "a" * (MAX_TEXT + 1)), "at most 4000"),
        (lambda: manager.comment(9.0, "eve", "\ud800"), "not valid text"),
        (lambda: manager.label(9.0, "eve", state="", begin=0, end=1), "label is empty"),
        (lambda: manager.label(9.0, "eve", state="a", begin=1, end=1), "times in order"),
        (lambda: manager.label(9.0, "eve", state="a", begin=-math.inf, end=1), "times in order"),
        (lambda: manager.close(math.nan, "eve"), "expected seconds of the stream"),
        (lambda: manager.no_data(math.inf), "expected seconds of the stream"),
        (lambda: manager.observe(2.0, 1.0, None), "times in order"),
        (lambda: manager.observe(math.nan, 1.0, None), "times in order"),
        (lambda: manager.observe(1.0, 2.0, ""), "a name or None"),
    ]
    for command, message in refused:
        with pytest.raises(DataError, match=message):
            command()
        assert manager.state() == before


def test_events_are_lines_of_json() -> None:
    machine = raised()
    machine.does(machine.manager.comment, "grinds")
    lines = [json.loads(event.to_json()) for event in machine.events]
    assert [(line["event"], line["version"], line["machine"]) for line in lines] == [
        ("alarm", 1, "pump"),
        ("comment", 1, "pump"),
    ]
    assert (lines[0]["change"], lines[0]["case"]["faults"], lines[0]["notify"]) == ("opened", ["crack"], True)


def test_settings_come_from_a_file() -> None:
    config = bind(AlarmConfig, {"on_delay": 1, "severities": {"crack": "low"}}, "alarms")
    named = {name: config.severity(name) for name in ("crack", "wear", "unknown", NO_DATA)}
    assert named == {"crack": "low", "wear": "high", "unknown": "medium", NO_DATA: "low"}
    with pytest.raises(ConfigError, match=r"severities\.crack: expected one of 'low', 'medium', 'high', got 'dire'"):
        bind(AlarmConfig, {"severities": {"crack": "dire"}}, "alarms")
    with pytest.raises(ConfigError, match=r"on_delay -1; expected seconds"):
        AlarmConfig(on_delay=-1)
    with pytest.raises(ConfigError, match=r"off_delay nan; expected seconds"):
        AlarmConfig(off_delay=math.nan)
    with pytest.raises(ConfigError, match="'dire' of 'crack'"):
        AlarmConfig(severities={"crack": "dire"})  # type: ignore[dict-item]  # what an untyped caller may pass


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "state of version 2; this cgsa reads version 1"),
        ({"quiet": "long"}, "quiet: expected a number"),
        ({"case": {"number": 1}}, "case.state: missing"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(BundleError, match=message):
        AlarmManager.from_state(CONFIG, "pump", AlarmManager(CONFIG, "pump").state() | changes)


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=25))
def test_an_oscillating_signal_opens_one_case_and_notifies_once(spells: list[tuple[int, int]]) -> None:
    machine = Machine()
    for sick, well in spells:
        machine.has("crack", sick)
        machine.has(None, well)
    changes = changes_of(machine.events)
    assert machine.notifications == changes.count("OPENED") <= 1
    long_enough = any(sick > CONFIG.on_delay for sick, _ in spells)
    assert machine.notifications or not long_enough
    # It is raised and cleared in turn, however often.
    assert all(a != b for a, b in pairwise(change.lower().replace("opened", "raised") for change in changes))


@given(sick=st.integers(1, 60), well=st.integers(1, 19))
def test_an_oscillation_faster_than_the_off_delay_is_raised_and_never_cleared(*, sick: int, well: int) -> None:
    machine = Machine()
    for _ in range(7):
        machine.has("crack", sick)
        machine.has(None, well)
    assert changes_of(machine.events) == ["OPENED"]


SECONDS = st.integers(1, 45)


def outcome(
    act: Callable[[AlarmManager], tuple[AlarmEvent, ...]], manager: AlarmManager
) -> tuple[AlarmEvent, ...] | str:
    """Return the events of an action, or the message of its refusal."""
    try:
        return act(manager)
    except DataError as error:
        return str(error)


class AlarmStateMachine(RuleBasedStateMachine):
    """Everything that a machine and its users may do, in any order; a second manager is restored before every step."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine()
        self.acts = 0

    @property
    def manager(self) -> AlarmManager:
        return self.machine.manager

    def restored(self) -> AlarmManager:
        return AlarmManager.from_state(CONFIG, "pump", json.loads(json.dumps(self.manager.state(), sort_keys=True)))

    def both(self, act: Callable[[AlarmManager], tuple[AlarmEvent, ...]]) -> None:
        """Do the same to the manager and to one restored from its state: they must not differ."""
        other, before = self.restored(), self.manager.state()
        events = outcome(act, self.manager)
        assert outcome(act, other) == events
        assert other.state() == self.manager.state()
        if isinstance(events, str):
            assert self.manager.state() == before
            return
        self.check(events)
        self.machine.events += events

    def check(self, events: Sequence[AlarmEvent]) -> None:
        was = next((e.case for e in reversed(self.machine.events) if isinstance(e, AlarmChange)), None)
        for event in events:
            if not isinstance(event, AlarmChange):
                continue
            case = event.case
            assert not (event.notify and case.shelved_until is not None)
            assert (case.closed is None) == case.open
            assert case.fault in case.faults
            assert len(set(case.faults)) == len(case.faults)
            if event.change == "opened":
                # Never two at once: a new case only if none is open.
                assert was is None or not was.open
                assert case.number == (was.number if was else 0) + 1
            else:
                assert was is not None
                assert case.number == was.number
                assert case.raised >= was.raised
                assert case.notified == was.notified + event.notify
                assert SEVERITIES.index(case.severity) >= SEVERITIES.index(was.severity)
                assert case.faults[: len(was.faults)] == was.faults
            was = case
        assert was == self.manager.case

    @rule(fault=st.sampled_from([None, *FAULTS]), seconds=SECONDS)
    def is_diagnosed(self, fault: str | None, seconds: int) -> None:
        for _ in range(seconds):
            begin = self.machine.time
            self.both(lambda manager, begin=begin: manager.observe(begin, begin + 1, fault))  # type: ignore[misc]  # the default binds the loop variable
            self.machine.time += 1

    @rule(levels=st.sets(st.sampled_from([LEVEL, WARNING, "level alarm: y peak"])))
    def has_levels(self, levels: set[str]) -> None:
        self.both(lambda manager: manager.observe_levels(self.machine.time, dict.fromkeys(sorted(levels), "high")))

    @rule(seconds=SECONDS)
    def is_silent(self, seconds: int) -> None:
        self.machine.time += seconds
        self.both(lambda manager: manager.no_data(self.machine.time))

    @rule(seconds=SECONDS)
    def jumps(self, seconds: int) -> None:
        self.machine.time -= seconds

    @rule()
    def acknowledge(self) -> None:
        self.acts += 1
        self.both(lambda manager: manager.acknowledge(self.machine.time, "eve"))

    @rule(seconds=st.integers(0, 200))
    def shelve(self, seconds: int) -> None:
        self.acts += 1
        self.both(lambda manager: manager.shelve(self.machine.time, "eve", seconds=seconds, reason="a"))

    @rule()
    def unshelve(self) -> None:
        self.both(lambda manager: manager.unshelve(self.machine.time, "eve"))

    @rule()
    def close(self) -> None:
        self.acts += 1
        self.both(lambda manager: manager.close(self.machine.time, "eve"))

    @rule()
    def comment_and_label(self) -> None:
        self.both(lambda manager: manager.comment(self.machine.time, "eve", "a"))
        self.both(lambda manager: manager.label(self.machine.time, "eve", state="a", begin=0, end=1))

    @precondition(lambda self: self.machine.manager.alarm_state != "normal")
    @rule(first=st.booleans())
    def is_acknowledged_and_returns_to_normal(self, *, first: bool) -> None:
        """In either order, the case ends closed."""
        if first and self.manager.alarm_state in {"raised", "shelved"}:
            self.acknowledge()
        self.has_levels(set())
        self.is_diagnosed(None, 45)
        if self.manager.alarm_state != "normal":
            self.acknowledge()
        assert self.manager.alarm_state == "normal"

    @invariant()
    def notifications_are_bounded(self) -> None:
        """No flood: every notification after the first of a case needs a higher severity or a command since."""
        opened = sum(isinstance(e, AlarmChange) and e.change == "opened" for e in self.machine.events)
        assert self.machine.notifications <= len(SEVERITIES) * opened + self.acts


TestDesk = AlarmStateMachine.TestCase
TestDesk.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)


def test_a_level_raises_an_alarm_beside_a_healthy_diagnosis() -> None:
    machine = Machine()
    assert machine.has_levels(LEVEL) == ["OPENED"]
    (opened,) = machine.events
    assert isinstance(opened, AlarmChange)
    assert (opened.fault, opened.text, opened.notify) == (LEVEL, "x rms 3 g, alarm limit 2 g", True)
    assert opened.case.severity == "high"
    # Health as diagnosed does not clear it; its own return to normal does.
    assert machine.has_levels(LEVEL, seconds=100) == []
    assert machine.has_levels() == ["cleared"]
    assert machine.has_levels(LEVEL) == ["raised"]
    assert machine.notifications == 1


def test_a_level_that_returns_to_normal_leaves_a_diagnosed_fault_active() -> None:
    machine = Machine()
    machine.has_levels(LEVEL, diagnosed="crack", seconds=10)
    assert machine.has_levels(diagnosed="crack", seconds=10) == []
    assert machine.state == "raised"
    assert machine.has_levels(seconds=19) == []
    assert machine.has_levels(seconds=2) == ["cleared"]


def test_a_warning_that_becomes_an_alarm_notifies_again() -> None:
    machine = Machine()
    assert machine.has_levels(WARNING) == ["OPENED"]
    assert machine.has_levels(LEVEL) == ["JOINED"]
    cases = [event.case for event in machine.events if isinstance(event, AlarmChange)]
    assert [case.severity for case in cases] == ["medium", "high"]
    assert cases[-1].faults == (WARNING, LEVEL)
    assert machine.notifications == 2
    assert machine.has_levels(WARNING, seconds=5) == []


def test_an_acknowledged_level_is_closed_by_its_return_to_normal() -> None:
    machine = Machine()
    machine.has_levels(LEVEL, seconds=30)
    assert machine.does(machine.manager.acknowledge) == ["acknowledged"]
    assert machine.has_levels(LEVEL, seconds=30) == []
    assert machine.has_levels() == ["cleared", "closed"]


def test_closing_by_hand_silences_a_level_for_a_delay_only() -> None:
    machine = Machine()
    machine.has_levels(LEVEL, seconds=3)
    assert machine.does(machine.manager.close) == ["closed"]
    assert machine.has_levels(LEVEL, seconds=4) == []
    assert machine.has_levels(LEVEL) == ["REOPENED"]


def test_the_severity_of_a_level_can_be_set() -> None:
    machine = Machine(AlarmConfig(severities={LEVEL: "low"}))
    machine.has_levels(LEVEL)
    assert machine.manager.case is not None
    assert machine.manager.case.severity == "low"


def test_without_levels_nothing_changes() -> None:
    machine, plain = Machine(), Machine()
    for fault in ("crack", None, None, "wear", None):
        machine.has_levels(diagnosed=fault, seconds=7)
        plain.has(fault, 7)
    assert machine.events == plain.events
    assert machine.manager.state() == plain.manager.state()


def test_levels_resume_from_the_state() -> None:
    machine, other = Machine(), Machine()
    machine.has_levels(LEVEL, seconds=3)
    machine.does(machine.manager.close)
    other.manager = AlarmManager.from_state(CONFIG, "pump", json.loads(json.dumps(machine.manager.state())))
    other.time = machine.time
    for _ in range(8):
        assert other.has_levels(LEVEL) == machine.has_levels(LEVEL)
    assert other.manager.state() == machine.manager.state()


def test_a_state_without_levels_is_read() -> None:
    machine = Machine()
    machine.has("crack", 10)
    state = machine.manager.state()
    del state["levels"]
    assert AlarmManager.from_state(CONFIG, "pump", state).state() == machine.manager.state()
