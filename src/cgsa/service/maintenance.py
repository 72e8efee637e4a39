"""Maintenance windows: times in which people work on machines, so that their alarms notify nobody.

A window repeats at the same time of day of its time zone, also when the clocks change there. All alarms in it are
recorded as usual. At its end, the newest of each machine is sent if it is still active and nobody has acknowledged it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from threading import Lock
from typing import ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cgsa.errors import DataError
from cgsa.live.store import DAY, MaintenanceWindow, Repeats, Store
from cgsa.service.rights import Person, check_patterns

REPEAT_DAYS: Mapping[Repeats, int] = {"daily": 1, "weekly": 7}
REFRESH_SECONDS = 5.0
"""Time between two readings of what other processes have written."""
LONGEST = 366 * DAY
"""Longest window in seconds; one that repeats ends before it begins again."""
MAX_REASON = 1000
"""Characters."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Occurrence:
    """One time of a window, in seconds since 1970."""

    __pydantic_config__: ClassVar[dict[str, bool]] = {"use_attribute_docstrings": True}

    begin: float
    end: float


def occurrence(window: MaintenanceWindow, now: float) -> Occurrence | None:
    """Return the time of a window that lasts now, or else the next one; None if none is left."""
    if window.ended is not None:
        return None
    days = REPEAT_DAYS.get(window.repeats)
    if days is None:
        return Occurrence(window.begin, window.end) if now < window.end else None
    zone = ZoneInfo(window.zone)
    first = datetime.fromtimestamp(window.begin, zone)
    length = window.end - window.begin
    passed = (datetime.fromtimestamp(now, zone).date() - first.date()).days
    # The one before may still last, past midnight.
    number = max(0, passed // days - 1)
    while True:
        begin = _at(first.date() + timedelta(days=number * days), first)
        if now < begin + length:
            return Occurrence(begin, begin + length)
        number += 1


def _at(day: date, first: datetime) -> float:
    """Return the same time of another day; one that the clocks leave out is as much later."""
    return datetime.combine(day, first.time(), first.tzinfo).timestamp()


class MaintenanceCalendar:
    """The maintenance windows of a service, in memory and in its store; usable from any thread.

    While it runs, it takes over what other processes write to the same store.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self._lock = Lock()
        self._windows: dict[int, MaintenanceWindow] = {}
        self.refresh()

    @property
    def windows(self) -> tuple[MaintenanceWindow, ...]:
        """All windows, the newest first."""
        with self._lock:
            return tuple(self._windows[number] for number in sorted(self._windows, reverse=True))

    def refresh(self) -> None:
        """Read the windows in the store, which other processes may have added or ended."""
        with self._store.read() as snapshot:
            found = snapshot.maintenance()
        with self._lock:
            for one in found:
                known = self._windows.get(one.number)
                # Nothing is undone: what was read may be older than what was done here meanwhile.
                if known is None or known.ended is None:
                    self._windows[one.number] = one

    async def run(self) -> None:
        """Read the windows every few seconds."""
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            try:
                await asyncio.to_thread(self.refresh)
            except DataError as error:
                _log.warning("the maintenance windows of other processes are not known: %s", error)

    def upcoming(self) -> list[tuple[MaintenanceWindow, Occurrence]]:
        """Return the windows that last now or will, with that time, the earliest first."""
        now = self._clock()
        found = [(one, when) for one in self.windows if (when := occurrence(one, now)) is not None]
        return sorted(found, key=lambda each: each[1].begin)

    def until(self, machine: str, now: float | None = None) -> float | None:
        """Return when the maintenance of a machine ends; None if it is not under maintenance."""
        at = self._clock() if now is None else now
        ends = [
            when.end
            for one in self.windows
            if _concerns(one, machine) and (when := occurrence(one, at)) is not None and when.begin <= at
        ]
        return max(ends, default=None)

    def add(
        self,
        person: Person,
        machines: tuple[str, ...],
        begin: float,
        end: float,
        *,
        reason: str,
        repeats: Repeats = "once",
        zone: str = "UTC",
    ) -> MaintenanceWindow:
        """Add a window for machines that the token of a person is valid for, and return it once it is stored."""
        if not machines:
            raise DataError("machines: empty; expected names or patterns, such as press-*")
        for pattern in check_patterns(machines):
            if not person.covers_pattern(pattern):
                raise DataError(f"machines {pattern}: the token of {person.name} is valid for other machines only")
        longest = REPEAT_DAYS.get(repeats, LONGEST / DAY) * DAY
        if not (math.isfinite(begin) and begin < end <= begin + longest) or end <= self._clock():
            raise DataError(
                f"maintenance from {begin:g} to {end:g}; expected times in order, an end in the future, and at most "
                f"{longest / 3600:g} hours"
            )
        if not reason.strip() or len(reason) > MAX_REASON:
            raise DataError(f"reason of {len(reason)} characters; expected a few words, up to {MAX_REASON} characters")
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise DataError(f"time zone {zone[:64]!r}; expected a name such as Europe/Berlin") from error
        now = self._clock()
        window = self._store.add_maintenance(
            MaintenanceWindow(0, machines, begin, end, repeats, zone, person.name, reason, created=now)
        )
        with self._lock:
            self._windows[window.number] = window
        return window

    def end(self, number: int, person: Person) -> MaintenanceWindow:
        """End a window for good, as a person whose token is valid for all of its machines."""
        self.refresh()
        with self._lock:
            window = self._windows.get(number)
            if window is None or not all(map(person.covers_pattern, window.machines)):
                raise DataError(f"there is no maintenance {number} of machines that the token is valid for")
            now = self._clock()
            self._store.end_maintenance(number, now, person.name)
            self._windows[number] = replace(window, ended=now, ended_by=person.name)
            return self._windows[number]


def _concerns(window: MaintenanceWindow, machine: str) -> bool:
    return Person("", "viewer", window.machines).covers(machine)


def visible(window: MaintenanceWindow, person: Person, machines: Mapping[str, object]) -> bool:
    """Return whether a window concerns a machine that the token of a person is valid for."""
    return not person.machines or any(person.covers(name) and _concerns(window, name) for name in machines)


def describe_occurrence(window: MaintenanceWindow, when: Occurrence) -> str:
    """Return a window as text, such as ``press-* from 2026-11-19 10:00 to 12:00, weekly``."""
    zone = ZoneInfo(window.zone) if window.repeats != "once" else UTC
    begin, end = (datetime.fromtimestamp(at, zone) for at in (when.begin, when.end))
    until = f"{end:%H:%M}" if begin.date() == end.date() else f"{end:%Y-%m-%d %H:%M}"
    repeats = "" if window.repeats == "once" else f", {window.repeats}"
    return f"{', '.join(window.machines)} from {begin:%Y-%m-%d %H:%M} to {until} {begin.tzname()}{repeats}"
