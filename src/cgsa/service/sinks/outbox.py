"""The outbox: notifications kept on disk until every receiver has them.

A small file beside them records how far each reader got. An unreachable receiver therefore blocks nobody, and a service
that was killed sends what it had not sent before.

After a kill, the workers repeat what they had done since their last states, including the same alarms. A notification
is identified by its machine, the position in the machine's journal and the index there, and is not added twice. If the
same place has other content, because a power failure took the end of the journal, it is another notification.
"""

from __future__ import annotations

import json
import logging
import time
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from threading import Lock
from typing import Any

from cgsa.errors import DataError
from cgsa.events import AlarmChange
from cgsa.files import replacing
from cgsa.live.journal import Journal
from cgsa.live.segments import Entry, JournalRecord, LostRecords
from cgsa.live.store import DeliveryRecord
from cgsa.service.links.link import Clock

SEGMENT_BYTES = 2**20
"""About 1500 notifications."""
KEPT = 1000
"""Notifications kept after all readers have them, to recognise repeated ones."""
MAX_HELD = 10_000
"""Notifications kept in memory while the disk is full; further ones are lost."""
RECORD = "letter"
"""Kind of the journal's records."""
PROGRESS = "progress.json"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Notification:
    """One change of a case and its origin."""

    machine: str
    position: int
    """Position in the machine's journal."""
    index: int
    """Index among the events of the record there."""
    noticed: float
    """When the service noticed it, by the wall clock; the event has stream time."""
    event: Mapping[str, Any]
    """The event as JSON values."""
    sink: str | None = None
    """The only sink that gets it; None for all."""
    reason: str = ""
    """Why it is sent to that sink or later: the escalation, or the end of a maintenance."""
    held: bool = False
    """Whether it happened during a maintenance: only sinks that record everything get it."""

    @classmethod
    def of_event(cls, machine: str, position: int, index: int, event: AlarmChange) -> Notification:
        """Return the notification of an event that has not been noticed yet."""
        return cls(machine, position, index, 0.0, json.loads(event.to_json()))

    @classmethod
    def of_record(cls, record: DeliveryRecord) -> Notification:
        """Return the notification that a record is about, as it was first sent."""
        return cls(record.machine, record.position, record.index, record.time, json.loads(record.event))

    @property
    def id(self) -> str:
        """Identifier; the same if a notification is sent twice."""
        again = f"/{self.sink or 'later'}" if self.reason else ""
        return f"{self.machine}/{self.position}/{self.index}{again}"

    def event_text(self) -> str:
        """Return the event as JSON."""
        return json.dumps(self.event)

    def body(self) -> bytes:
        """Return what receivers get: the event with ``id``, ``noticed`` and, if there is one, ``reason``."""
        reason = {"reason": self.reason} if self.reason else {}
        # Receivers that select by `notify` take one in a maintenance for what it is: a record.
        event = {**self.event, "notify": False} if self.held else self.event
        return json.dumps({"id": self.id, "noticed": self.noticed, **reason, **event}).encode()

    def to_bytes(self) -> bytes:
        """Return the notification as the outbox keeps it: without defaults, so that older versions can read it."""
        kept = {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default}
        return json.dumps(kept).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> Notification:
        """Read a notification that the outbox kept."""
        return cls(**json.loads(payload))

    def checksum(self) -> int:
        """Return a checksum of the content."""
        return zlib.crc32(self.event_text().encode())


class Outbox:
    """Notifications in order, and how far each reader got; usable from any thread.

    Parameters
    ----------
    readers
        Their names. A new reader gets no earlier notifications.
    clock
        Seconds since 1970.
    """

    def __init__(self, folder: str | Path, readers: Sequence[str], *, clock: Clock = time.time) -> None:
        self.folder = Path(folder)
        self.lost = 0
        """Notifications lost because the disk was full."""
        self._clock = clock
        self._lock = Lock()
        self._progress_lock = Lock()
        self._held: deque[Notification] = deque()
        """Notifications not written yet."""
        self._journal = Journal(self.folder / "letters", segment_bytes=SEGMENT_BYTES)
        try:
            self._positions = self._load_progress(readers)
            # Saved at once: a new reader must not count as new again after a kill.
            self._save()
            self._known = {
                found.id: (found.checksum(), entry.position) for entry, found in self.read(self._journal.begin) if found
            }
        except BaseException:
            self._journal.close()
            raise

    @property
    def end(self) -> int:
        """Position of the next notification."""
        return self._journal.end + len(self._held)

    def put(self, machine: str, position: int, index: int, event: AlarmChange) -> bool:
        """Add the notification of an event and return whether it is new."""
        return self.add(Notification.of_event(machine, position, index, event))

    def add(self, notification: Notification) -> bool:
        """Add a notification, noticed now, and return whether it is new; never raises: no caller could handle it."""
        added = replace(notification, noticed=self._clock())
        checksum = added.checksum()
        with self._lock:
            known = self._known.get(added.id)
            if known is not None and known[0] == checksum:
                return False
            if len(self._held) >= MAX_HELD:
                self.lost += 1
                return False
            self._known[added.id] = checksum, self.end
            self._held.append(added)
            self._write()
        return True

    def read(self, begin: int) -> Iterator[tuple[Entry, Notification | None]]:
        """Return the entries from a position on; one that cannot be read any more comes without a notification."""
        with self._lock:
            end, held = self._journal.end, tuple(self._held)
            written = self._journal.read(min(begin, end))
        for entry in written:
            yield entry, None if isinstance(entry, LostRecords) else Notification.from_bytes(entry.payload)
        # Notifications in memory have a position, too: alarms go out while the disk is full.
        for position, notification in enumerate(held, end):
            if position >= begin:
                yield JournalRecord(position, RECORD, b""), notification

    def flush(self) -> None:
        """Bring everything onto the disk, including what did not fit before."""
        with self._lock:
            self._write()
        self._journal.sync()

    def set_readers(self, readers: Sequence[str]) -> None:
        """Have other readers from now on; those that stay keep their places, and new ones begin at the end."""
        with self._progress_lock:
            self._positions = {name: self._positions.get(name, self.end) for name in readers}
            self._save()

    def position(self, reader: str) -> int:
        """Return how far a reader got."""
        return self._positions.get(reader, self.end)

    def advance(self, reader: str, position: int) -> None:
        """Set how far a reader got; :meth:`save` makes it permanent."""
        # A reader that is gone may still be in the middle of a notification.
        if reader in self._positions:
            self._positions[reader] = position

    def save(self) -> None:
        """Save how far all readers got, and delete what all have received."""
        # Not the lock of put(): the disk may be slow, and callers of put() must not wait for it.
        with self._progress_lock:
            self._save()
            forgotten = self._journal.forget(min([*self._positions.values(), self._journal.end - KEPT]))
        if forgotten:
            with self._lock:
                begin = self._journal.begin
                self._known = {name: place for name, place in self._known.items() if place[1] >= begin}

    def close(self) -> None:
        """Save how far the readers got, and release the files."""
        try:
            self.save()
        except DataError as error:
            _log.warning("%s", error)
        finally:
            self._journal.close()

    def _write(self) -> None:
        """Write what is held, as far as there is room."""
        try:
            while self._held:
                self._journal.append(RECORD, self._held[0].to_bytes())
                self._held.popleft()
        except DataError as error:
            _log.warning("%s", error)

    def _load_progress(self, readers: Sequence[str]) -> dict[str, int]:
        """Return how far the readers got when the last process ended."""
        path = self.folder / PROGRESS
        found: dict[str, int] = {}
        try:
            found = {name: int(place) for name, place in json.loads(path.read_text(encoding="utf-8")).items()}
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, AttributeError) as error:
            # Sending twice is better than never.
            _log.warning("%s: cannot be read (%s); all remaining notifications are sent again", path, error)
            found = dict.fromkeys(readers, self._journal.begin)
        # A power failure can remove sent notifications from the journal; their positions are not used again.
        self._journal.advance(max(found.values(), default=0))
        begin, end = self._journal.begin, self._journal.end
        return {name: max(begin, found.get(name, end)) for name in readers}

    def _save(self) -> None:
        with replacing(self.folder / PROGRESS, DataError) as fresh:
            fresh.write_text(json.dumps(self._positions), encoding="utf-8")
