"""What the dashboard says, in words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo

from cgsa.events import NO_DATA, AlarmChange, Case
from cgsa.live.worker import WorkerStatus
from cgsa.service.dashboard.summary import Mood, Summary, trust_step

MOOD_WORDS: Mapping[Mood, str] = {
    "alarm": "Alarm",
    "over": "Alarm over",
    "acknowledged": "Acknowledged",
    "shelved": "Shelved",
    "unknown": "Unknown",
    "no data": "No data",
    "suspect": "Suspect",
    "healthy": "Healthy",
    "waiting": "Waiting",
}
NONE = "\u2013"
"""Where there is nothing to tell."""
_UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"))
_CHANGES = {
    "opened": "opened for {fault}",
    "reopened": "reopened for {fault}",
    "raised": "raised again: {fault}",
    "joined": "{fault} joined",
    "acknowledged": "acknowledged",
    "cleared": "{fault} is over",
    "shelved": "shelved",
    "unshelved": "no longer shelved",
    "closed": "closed",
}


def display_name(name: str) -> str:
    """Return the name of a class as people write it.

    >>> plain("gear_wear")
    'gear wear'
    """
    return name.replace("_", " ")


def percent(share: float | None) -> str:
    """Return a share in percent; what is not quite all or nothing is not said to be.

    >>> percent(0.934), percent(0.9999), percent(0.0001), percent(0.0), percent(None)
    ('93 %', '>99 %', '<1 %', '0 %', 'not known')
    """
    if share is None:
        return "not known"
    if 0 < share < 0.01:
        return "<1 %"
    if 0.99 < share < 1:
        return ">99 %"
    return f"{100 * share:.0f} %"


def duration(seconds: float) -> str:
    """Return a length of time in its two largest units at most.

    >>> duration(12.4), duration(75), duration(7200), duration(90_000)
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


def moment(seconds: float, zone: tzinfo, now: float | None = None) -> str:
    """Return a time of the stream by the clock of the person: without the day if it is that of ``now``.

    >>> moment(3600.0, UTC, now=7200.0), moment(3600.0, UTC)
    ('01:00:00', '1970-01-01 01:00:00')
    """
    when = datetime.fromtimestamp(seconds, UTC).astimezone(zone)
    today = now is not None and datetime.fromtimestamp(now, UTC).astimezone(zone).date() == when.date()
    return when.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")


def size(count: int) -> str:
    """Return a number of bytes.

    >>> size(900), size(84_000_000)
    ('900 B', '84.0 MB')
    """
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"


def verdict(summary: Summary) -> str:
    """Say what the machine has, as far as is known."""
    told, case = summary.verdict, summary.case
    if told is None:
        return "nothing has come so far"
    word = display_name(told)
    if summary.silent:
        return f"last: {word}"
    if case is not None and case.fault != told:
        return f"{display_name(case.fault)}; now {word}"
    return word


def data(summary: Summary) -> str | None:
    """Say what is wrong with the data; none where nothing is."""
    heard, status = summary.heard, summary.status
    if summary.silent:
        return f"no data for {duration(heard.silent)}: nothing comes from the sensor"
    if heard.trouble is None:
        return None
    if summary.verdict == NO_DATA:
        return f"no data for {duration(status.now - heard.trouble.since)}: {heard.trouble.reason}"
    return f"some windows are not believed: {heard.trouble.reason}"


def learning(status: WorkerStatus) -> str:
    """Say whether the method learns, and if not, why."""
    told = status.diagnosis
    match status.learning:
        case "catching up":
            return f"catching up: {duration(status.waiting)} of signal wait"
        case "frozen":
            return "learning frozen: windows are diagnosed, none is learnt from"
        case "shed":
            return f"{status.waiting:.1f} s behind: learning is shed"
    if told is None:
        return "not learning yet: waiting for the first batch"
    if told.trust is None:
        return "learning paused: nothing could be believed"
    return told.trust.note


def sentence(text: str) -> str:
    """Return a text that begins as a sentence does.

    >>> sentence("learning: CGSA")
    'Learning: CGSA'
    """
    return text[:1].upper() + text[1:]


def learning_in_short(status: WorkerStatus) -> str:
    """Say the same in a word or two."""
    told = status.diagnosis
    if status.learning != "learning":
        return status.learning
    if told is None:
        return "not yet"
    return "paused" if told.trust is None else told.trust.note.split(":")[0]


def trust(summary: Summary) -> str:
    """Say how far to trust the verdict."""
    share = summary.trust
    if share is None:
        return "not known"
    return f"{('low', 'fair', 'good')[trust_step(share)]}, {percent(share)}"


def since(summary: Summary, zone: tzinfo) -> str:
    """Say since when the machine stands as it does."""
    begin = summary.case.opened if summary.case is not None else summary.heard.since
    if begin is None:
        return ""
    return f"since {moment(begin, zone, summary.status.now)}"


def case(case: Case, zone: tzinfo, now: float) -> str:
    """Say how a case stands."""
    if case.shelved_until is not None:
        return f"shelved until {moment(case.shelved_until, zone, now)}: it calls nobody"
    match case.state:
        case "raised":
            return "the alarm stands and nobody has acknowledged it"
        case "acknowledged":
            return f"the alarm stands, acknowledged by {case.acknowledged_by}"
        case "cleared":
            return "the alarm is over and nobody has acknowledged it"
    return "closed"


def change(change: AlarmChange) -> str:
    """Say what happened to a case, who did it and what they said."""
    words = _CHANGES[change.change].format(fault=display_name(change.fault))
    who = "" if change.who is None else f" by {change.who}"
    said = f": {change.text}" if change.text else ""
    return f"{words}{who}{said}"
