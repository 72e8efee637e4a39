"""The newest events of all machines, for clients that listen.

Worker threads put events into one ring buffer of fixed size and continue at once. Each listener remembers how far it
has read. A listener therefore costs a worker thread nothing, and one that is too slow finds that it has lost events;
nobody else notices.
"""

from __future__ import annotations

import asyncio
import math
import re
import secrets
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from threading import Lock
from weakref import WeakKeyDictionary

from pydantic_core import to_json

from cgsa.events import Diagnosis, Event
from cgsa.live.monitored import MonitoredPlant
from cgsa.live.store import MAX_PAGE, RowSelection
from cgsa.service.errors import RefusedError
from cgsa.service.limits import RequestLimits
from cgsa.service.rights import NotAllowedError

RETRY_SECONDS = 10.0
"""When to try again if there are too many listeners."""
STORED = "0" * 8
"""Run number in the IDs of events read from the store."""
_ID = re.compile(r"(?P<run>[0-9a-f]{8})-(?P<number>[0-9]{1,15})-(?P<time>[0-9.e+-]{1,32})")


@dataclass(frozen=True, eq=False)
class FeedItem:
    """One event and its origin."""

    run: str
    """Identifies one run of the service."""
    number: int
    """Among all events of this run."""
    machine: str
    event: Event
    position: int | None = None
    """Of the record in the machine's journal that caused it; None if another process has written the event."""
    index: int | None = None
    """Among the events of that record."""

    @property
    def time(self) -> float:
        """Stream time of the event."""
        return float(self.event.end if isinstance(self.event, Diagnosis) else getattr(self.event, "time", 0.0))

    @property
    def id(self) -> str:
        """ID with which a listener resumes after this event."""
        return f"{self.run}-{self.number}-{self.time!r}"

    @cached_property
    def json(self) -> str:
        """The event as one line of JSON, made once for all listeners."""
        kind = {"event": self.event.kind, "version": self.event.version}
        origin = {"machine": self.machine, "position": self.position, "index": self.index}
        return _json({**kind, **origin, **vars(self.event)})

    def key(self) -> tuple[object, ...]:
        """Return what identifies the event, whether it is live or read from the store."""
        if isinstance(self.event, Diagnosis):
            return self.machine, self.event.kind, self.event.batch
        return self.machine, _json(self.event)


class EventFeed:
    """The ring buffer of at most ``size`` events, and the listeners that wait for news."""

    def __init__(self, plant: MonitoredPlant, limits: RequestLimits | None = None, *, size: int = 4096) -> None:
        self._limits = limits or RequestLimits()
        self.run = secrets.token_hex(4)
        self.closed = False
        self._plant = plant
        self._ring: deque[FeedItem] = deque(maxlen=size)
        self._next = 0
        self._lock = Lock()
        # Weak: a listener that is dropped before it begins leaves no place behind.
        self._waiting: WeakKeyDictionary[asyncio.Event, tuple[asyncio.AbstractEventLoop, str]] = WeakKeyDictionary()
        """The event loop and the owner of each listener."""
        self._unsubscribe = plant.subscribe(self._receive)

    @property
    def listeners(self) -> int:
        """Number of listeners."""
        return len(self._waiting)

    def close(self) -> None:
        """Receive no more events, and end all listeners."""
        if not self.closed:
            self.closed = True
            self._unsubscribe()
            self._wake()

    def subscribe(self, owner: str = "") -> asyncio.Event:
        """Return an event that is set whenever there is news; call this in the event loop of the listener.

        Raises an error if there are too many listeners, or too many of the same owner.
        """
        news = asyncio.Event()
        with self._lock:
            owners = [name for _, name in self._waiting.values()]
            if len(owners) >= self._limits.streams:
                raise RefusedError(503, f"{len(owners)} clients listen already", retry_after=RETRY_SECONDS)
            if owners.count(owner) >= self._limits.token_streams:
                reason = f"{owners.count(owner)} clients of {owner} listen already"
                raise NotAllowedError(reason, 429, retry_after=RETRY_SECONDS)
            self._waiting[news] = asyncio.get_running_loop(), owner
        return news

    def unsubscribe(self, news: asyncio.Event) -> None:
        """End a subscription."""
        with self._lock:
            self._waiting.pop(news, None)

    def since(self, number: int) -> tuple[list[FeedItem], bool]:
        """Return the events from a number on, and whether some of them are lost."""
        with self._lock:
            first = self._next - len(self._ring)
            return list(islice(self._ring, max(0, number - first), None)), number < first

    def resume(self, machine: str | None, last: str | None) -> tuple[int, list[FeedItem], bool]:
        """Return the number to resume from, earlier events from the store, and whether others are lost.

        ``last`` is the ID of the last event that the listener has received. While the ring buffer reaches back to it,
        nothing is lost or repeated. Older events of one machine are read from the store by time: those at exactly the
        last time are repeated. Events of all machines together have no common time to resume from.
        """
        match = _ID.fullmatch(last or "")
        with self._lock:
            newest, first = self._next, self._next - len(self._ring)
        if last is None or match is None:
            return newest, [], last is not None
        number = int(match["number"]) + 1
        if match["run"] == self.run and first <= number <= newest:
            return number, [], False
        time = _number(match["time"])
        if machine is None or time is None:
            return first, [], True
        stored, whole = self._stored(machine, time)
        held = {item.key() for item in self.since(first)[0] if item.machine == machine}
        return first, [item for item in stored if item.key() not in held], not whole

    def _stored(self, machine: str, begin: float) -> tuple[list[FeedItem], bool]:
        """Return the stored events of a machine from a time on, and whether these are all of them."""
        pick = RowSelection(begin=begin, newest_first=False, limit=MAX_PAGE)
        with self._plant.store.read() as snapshot:
            diagnoses = snapshot.diagnoses(machine, pick)
            tables = (snapshot.changes, snapshot.comments, snapshot.labels, snapshot.notes)
            pages = [read(machine, pick=pick) for read in tables]
        events: list[Event] = [row.diagnosis for row in diagnoses.rows]
        events += [row for page in pages for row in page.rows]
        items = sorted((FeedItem(STORED, 0, machine, event) for event in events), key=lambda item: item.time)
        return items, not any(page.more for page in (diagnoses, *pages))

    def _receive(self, machine: str, position: int | None, events: tuple[Event, ...]) -> None:
        with self._lock:
            for index, event in enumerate(events):
                place = (position, index) if position is not None else (None, None)
                self._ring.append(FeedItem(self.run, self._next, machine, event, *place))
                self._next += 1
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            waiting = [(news, loop) for news, (loop, _) in self._waiting.items() if not news.is_set()]
        for news, loop in waiting:
            with suppress(RuntimeError):  # the loop of the listener has ended
                loop.call_soon_threadsafe(news.set)


def _json(value: object) -> str:
    """Return a value as JSON; numbers that JSON does not know become null."""
    return to_json(value, inf_nan_mode="null", fallback=str).decode()


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
