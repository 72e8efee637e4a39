"""The newest events of all machines, for whoever listens.

Lanes put events into one ring of fixed size and go on at once. Each listener
remembers how far it has read. So a listener costs a lane nothing, and one that
is slower than the ring turns round finds that it has lost something; nobody
else notices.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import secrets
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from threading import Lock

from cgsa.events import Diagnosis, Event
from cgsa.live.plant import Plant
from cgsa.live.store import MAX_PAGE, RowSelection
from cgsa.service.schemas import plain

STORED = "0" * 8
"""Stands for the run in ids of events that were read from the store."""
_ID = re.compile(r"(?P<run>[0-9a-f]{8})-(?P<number>[0-9]{1,15})-(?P<time>[0-9.e+-]{1,32})")


@dataclass(frozen=True, eq=False)
class FeedItem:
    """One event, and where it came from."""

    run: str
    """Tells one life of the service from the others."""
    number: int
    """Among all events of this life."""
    machine: str
    event: Event
    position: int | None = None
    """Of the entry of the machine's journal that led to it; none where it was read from the store."""
    index: int | None = None
    """Among the events of that entry."""

    @property
    def time(self) -> float:
        """Of the machine's stream."""
        return float(self.event.end if isinstance(self.event, Diagnosis) else getattr(self.event, "time", 0.0))

    @property
    def id(self) -> str:
        """What a listener shows to go on behind this event."""
        return f"{self.run}-{self.number}-{self.time!r}"

    def told(self) -> dict[str, object]:
        """Return the event as JSON has it."""
        about = {"machine": self.machine, "position": self.position, "index": self.index}
        found: dict[str, object] = plain(asdict(self.event))
        return {"event": self.event.kind, "version": self.event.version, **about, **found}

    def same(self) -> tuple[object, ...]:
        """Return what tells the event from others, wherever it was read."""
        if isinstance(self.event, Diagnosis):
            return self.machine, self.event.kind, self.event.batch
        return self.machine, json.dumps(plain(asdict(self.event)), sort_keys=True)


class EventFeed:
    """The ring, and who waits for something new in it.

    Parameters
    ----------
    plant
        Whose events they are.
    size
        Events that the ring holds.
    """

    def __init__(self, plant: Plant, *, size: int = 4096) -> None:
        self.run = secrets.token_hex(4)
        self.closed = False
        self._plant = plant
        self._ring: deque[FeedItem] = deque(maxlen=size)
        self._next = 0
        self._lock = Lock()
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._unhear = plant.subscribe(self._hear)

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._waiting)

    def close(self) -> None:
        """Hear nothing more, and let all listeners go."""
        if not self.closed:
            self.closed = True
            self._unhear()
            self._wake()

    def join(self) -> asyncio.Event:
        """Return what is set whenever there is something new; to be called where the listener waits."""
        stirred = asyncio.Event()
        with self._lock:
            self._waiting[stirred] = asyncio.get_running_loop()
        return stirred

    def leave(self, stirred: asyncio.Event) -> None:
        """Listen no more."""
        with self._lock:
            self._waiting.pop(stirred, None)

    def since(self, number: int) -> tuple[list[FeedItem], bool]:
        """Return the events from a number on, and whether some of them are gone."""
        with self._lock:
            first = self._next - len(self._ring)
            return list(islice(self._ring, max(0, number - first), None)), number < first

    def resume(self, machine: str | None, last: str | None) -> tuple[int, list[FeedItem], bool]:
        """Return where to go on, what comes before that from the store, and whether more is gone than the store knows.

        ``last`` is the id of the last event that the listener has seen. While
        the ring reaches back to it, nothing is lost and nothing comes twice.
        Behind that, events of one machine are read from the store by their
        time: those of the very last time come again. Those of all machines
        together have no common time to go by.
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
        held = {item.same() for item in self.since(first)[0] if item.machine == machine}
        return first, [item for item in stored if item.same() not in held], not whole

    def _stored(self, machine: str, begin: float) -> tuple[list[FeedItem], bool]:
        """Return what the store holds of a machine from a time on, and whether that is all of it."""
        pick = RowSelection(begin=begin, newest_first=False, limit=MAX_PAGE)
        with self._plant.store.read() as snapshot:
            told = snapshot.diagnoses(machine, pick)
            pages = [
                snapshot.changes(machine, pick=pick),
                snapshot.comments(machine, pick=pick),
                snapshot.labels(machine, pick=pick),
                snapshot.notes(machine, pick=pick),
            ]
        events: Iterable[Event] = [*(row.diagnosis for row in told.rows), *(row for page in pages for row in page.rows)]
        items = sorted((FeedItem(STORED, 0, machine, event) for event in events), key=lambda item: item.time)
        cut = [page for page in (told, *pages) if page.more]
        return items, not cut

    def _hear(self, machine: str, position: int, events: tuple[Event, ...]) -> None:
        with self._lock:
            for index, event in enumerate(events):
                self._ring.append(FeedItem(self.run, self._next, machine, event, position, index))
                self._next += 1
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            waiting: list[tuple[Callable[[], None], asyncio.AbstractEventLoop]] = [
                (stirred.set, loop) for stirred, loop in self._waiting.items() if not stirred.is_set()
            ]
        for stir, loop in waiting:
            with suppress(RuntimeError):  # its loop has ended, and so has the listener
                loop.call_soon_threadsafe(stir)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
