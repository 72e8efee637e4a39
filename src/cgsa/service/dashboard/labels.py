"""Texts of the dashboard: numbers, times, and sentences about a machine."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo

from cgsa.events import NO_DATA, OFF, AlarmChange, Case
from cgsa.live.levels.faults import is_level_fault
from cgsa.live.sender_clock import AHEAD_SECONDS, BEHIND_SECONDS
from cgsa.live.worker_status import WorkerStatus
from cgsa.service.dashboard.summary import DISPLAY_STATUSES, DisplayStatus, MachineSummary, trust_level

STATUS_LABELS: Mapping[DisplayStatus, str] = {status: status.capitalize() for status in DISPLAY_STATUSES}
MISSING = "\u2013"
"""Shown instead of a value that does not exist."""
_UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"))
_CHANGES = {
    "opened": "opened: {fault}",
    "reopened": "reopened: {fault}",
    "raised": "active again: {fault}",
    "joined": "fault added: {fault}",
    "acknowledged": "acknowledged",
    "cleared": "cleared: {fault}",
    "shelved": "shelved",
    "unshelved": "unshelved",
    "closed": "closed",
}


def display_name(name: str) -> str:
    """Return the name of a class with spaces instead of underscores.

    >>> display_name("gear_wear")
    'gear wear'
    """
    return name.replace("_", " ")


def format_percent(share: float | None) -> str:
    """Return a share in percent; only exactly 0 and exactly 1 are shown as 0 % and 100 %.

    >>> format_percent(0.934), format_percent(0.9999), format_percent(0.0001), format_percent(0.0), format_percent(None)
    ('93 %', '>99 %', '<1 %', '0 %', 'not known')
    """
    if share is None:
        return "not known"
    if 0 < share < 0.01:
        return "<1 %"
    if 0.99 < share < 1:
        return ">99 %"
    return f"{100 * share:.0f} %"


def format_duration(seconds: float) -> str:
    """Return a duration in at most its two largest units, rounded down.

    >>> format_duration(12.4), format_duration(75), format_duration(7200), format_duration(90_000)
    ('12 s', '1 min 15 s', '2 h', '1 d 1 h')
    """
    left = max(0.0, seconds)
    parts = []
    for size, unit in _UNITS:
        if left >= size:
            parts.append(f"{int(left // size)} {unit}")
            left %= size
    if len(parts) < 2 and (int(left) or not parts):
        parts.append(f"{int(left)} s")
    return " ".join(parts[:2])


def format_time(seconds: float, zone: tzinfo, now: float | None = None, *, milliseconds: bool = False) -> str:
    """Return a stream time in the time zone of the browser; the date is left out if it is that of ``now``.

    >>> format_time(3600.0, UTC, now=7200.0), format_time(3600.0, UTC)
    ('01:00:00', '1970-01-01 01:00:00')
    >>> format_time(40.0625, UTC, now=0.0, milliseconds=True), format_time(40.9996, UTC, now=0.0, milliseconds=True)
    ('00:00:40.062', '00:00:41.000')
    """
    # Rounded before it is split: 40.9996 s is 41.000 s, not 40 s and 1000 ms.
    time = datetime.fromtimestamp(round(seconds, 3) if milliseconds else seconds, UTC).astimezone(zone)
    today = now is not None and datetime.fromtimestamp(now, UTC).astimezone(zone).date() == time.date()
    text = time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")
    return f"{text}.{time.microsecond // 1000:03d}" if milliseconds else text


def format_size(count: int) -> str:
    """Return a number of bytes with its unit.

    >>> format_size(900), format_size(84_000_000)
    ('900 B', '84.0 MB')
    """
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"


def capitalise(text: str) -> str:
    """Return a text with a capital first letter; the others stay as they are.

    >>> capitalise("learning: CGSA")
    'Learning: CGSA'
    """
    return text[:1].upper() + text[1:]


def describe_verdict(summary: MachineSummary) -> str:
    """Return the state of the machine, and the fault of the open case if that is another.

    A level stands beside the diagnosis, so that both may hold at the same time.
    """
    verdict, case = summary.verdict, summary.case
    if verdict is None:
        return "no data received yet"
    name = "off, standing still" if verdict == OFF else display_name(verdict)
    diagnosis = summary.status.diagnosis
    if diagnosis is not None and diagnosis.nearest_fault is not None:
        fault, share = diagnosis.nearest_fault
        name = f"{name}, like {display_name(fault)} ({format_percent(share)})"
    if summary.silent:
        return f"last known: {name}"
    if case is not None and case.fault != verdict:
        joined = "diagnosis:" if case.active and is_level_fault(case.fault) else "now"
        return f"{display_name(case.fault)}; {joined} {name}"
    return name


def describe_data_problem(summary: MachineSummary) -> str | None:
    """Return what is wrong with the data; None if they are good."""
    unwatched, fault = _describe_unwatched(summary.status), summary.activity.sensor_fault
    if unwatched is not None:
        return unwatched
    if summary.silent:
        silence = f"no data for {format_duration(summary.activity.silent_seconds)}: the sensor sends nothing"
        return silence if summary.silence_seconds is None else f"no data: {describe_measurements(summary)}"
    if fault is None:
        diagnosis = summary.status.diagnosis
        question = None if diagnosis is None else diagnosis.sensor_question
        return None if question is None else f"check the sensor: {question}"
    if summary.verdict == NO_DATA:
        return f"no data for {format_duration(summary.status.now - fault.since)}: {fault.reason}"
    return f"some windows rejected by the quality gate: {fault.reason}"


def describe_measurements(summary: MachineSummary) -> str | None:
    """Return when the machine was measured and will be; None if it is measured all the time."""
    measurements = summary.status.measurements
    if measurements is None:
        return None
    if measurements.next is None:
        return f"no measurement yet; one is expected every {format_duration(measurements.every)}"
    left = measurements.next - summary.wall_time
    due = f"in {format_duration(left)}" if left >= 0 else f"{format_duration(-left)} ago"
    return f"last measurement {format_duration(summary.measured_ago)} ago, next expected {due}"


def describe_operation(status: WorkerStatus, zone: tzinfo) -> str | None:
    """Return whether the machine runs, since when and for how long in total; None if that is unknown."""
    operation = status.operation
    if operation is None:
        return None
    since = "" if operation.since is None else f" since {format_time(operation.since, zone, status.now)}"
    what = "running" if operation.state == "running" else "standing still"
    rest = "" if operation.state == "running" else ", not diagnosed and no alarm"
    return f"{what}{since}{rest}; {format_duration(operation.run_seconds)} of run time"


def describe_refusal(status: WorkerStatus, zone: tzinfo) -> str | None:
    """Return the newest data that were refused or are missing, and why; None if there are none."""
    refused = status.last_refused
    return None if refused is None else f"last refused, {format_time(refused.time, zone, status.now)}: {refused.text}"


def _describe_unwatched(status: WorkerStatus) -> str | None:
    """Return why nothing of what comes is diagnosed; None if it is."""
    if status.work == "stopped":
        return describe_work(status)
    run = status.refused_run
    return f"no data: {run.count} blocks refused, {run.reason}" if run is not None and run.lasts(0.0) else None


def describe_work(status: WorkerStatus) -> str | None:
    """Return what fails in the monitoring of the machine; None if nothing does."""
    if status.work == "stopped":
        return f"not monitored: {status.problem}"
    if not status.problems:
        return None
    failing = "; ".join(f"cannot {one.task}: {one.cause}, {one.attempts} attempts" for one in status.problems)
    return f"{failing}. It is tried again"


def describe_refused_run(status: WorkerStatus) -> str | None:
    """Return which blocks were refused since the last one in use; None if that was the newest."""
    return None if status.refused_run is None else status.refused_run.text


def describe_clock(status: WorkerStatus) -> str | None:
    """Return by how much the clock of the sender is wrong; None if it is not, or if that is unknown."""
    skew = status.clock_skew
    if skew is None or -BEHIND_SECONDS <= skew <= AHEAD_SECONDS:
        return None
    if skew > 0:
        return f"the clock of the sender is {format_duration(skew)} ahead of this computer's"
    return f"blocks arrive {format_duration(-skew)} after their time stamps"


def describe_learning(status: WorkerStatus) -> str:
    """Return whether the method learns, and if not, why."""
    match status.learning:
        case "catching up":
            return f"catching up: {format_duration(status.waiting)} of signal waiting"
        case "frozen":
            return "learning frozen: windows are diagnosed but not used for learning"
        case "shed":
            return f"{status.waiting:.1f} s behind: learning suspended"
    if status.diagnosis is None:
        return "not learning yet: waiting for the first batch"
    if status.diagnosis.trust is None:
        off = status.diagnosis.state == OFF
        why = " while the machine stands still" if off else ": all windows rejected by the quality gate"
        return f"learning paused{why}"
    return status.diagnosis.trust.note


def learning_label(status: WorkerStatus) -> str:
    """Return the same as :func:`describe_learning` in a word or two."""
    if status.learning != "learning":
        return "suspended" if status.learning == "shed" else status.learning
    if status.diagnosis is None:
        return "not yet"
    return "paused" if status.diagnosis.trust is None else status.diagnosis.trust.note.split(":")[0]


def describe_trust(summary: MachineSummary) -> str:
    """Return the trust in the verdict as a level and a number."""
    share = summary.trust
    if share is None:
        return "not known"
    return f"{('low', 'fair', 'good')[trust_level(share)]}, {format_percent(share)}"


def describe_since(summary: MachineSummary, zone: tzinfo) -> str:
    """Return since when the case is open or the state lasts; empty if that is not known."""
    begin = summary.activity.since if summary.case is None else summary.case.opened
    return "" if begin is None else f"since {format_time(begin, zone, summary.status.now)}"


def describe_case_state(case: Case, zone: tzinfo, now: float) -> str:
    """Return the state of an alarm case in the terms of ISA-18.2."""
    if case.shelved_until is not None:
        return f"shelved until {format_time(case.shelved_until, zone, now)}: no notifications"
    match case.state:
        case "raised":
            return "active, unacknowledged"
        case "acknowledged":
            return f"active, acknowledged by {case.acknowledged_by}"
        case "cleared":
            return "cleared, unacknowledged"
    return "closed"


def describe_change(change: AlarmChange) -> str:
    """Return what happened to a case, who did it and their remark."""
    text = _CHANGES[change.change].format(fault=display_name(change.fault))
    person = "" if change.who is None else f" by {change.who}"
    remark = f": {change.text}" if change.text else ""
    return f"{text}{person}{remark}"
