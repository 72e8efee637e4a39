"""The outbox: what is to be told to others, kept on disk until every one of them was told.

Whoever hears of an alarm puts it here and goes on; how far each reader got
stands in a small file beside it. So a dead receiver holds up nobody, and a
service that is killed sends what it had not sent before.

After a kill the workers do again what they had done since their last states,
and tell of the same alarms again. A letter is known by the machine, the
position in its journal and the index there, and one that the outbox holds
already is not taken twice. Where the same place leads to something else, for a
power failure took the end of the journal, it is another letter.
"""

from __future__ import annotations

import json
import logging
import time
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from cgsa.errors import DataError
from cgsa.events import AlarmChange
from cgsa.files import replacing
from cgsa.live.journal import Journal
from cgsa.live.segments import Entry, JournalRecord, LostRecords
from cgsa.service.links.link import Clock

SEGMENT_BYTES = 2**20
"""Some 1500 letters."""
KEPT = 1000
"""Letters that stay after everybody got them, so that they are known should they come again."""
MOST_HELD = 10_000
"""Letters that are kept in memory while the disk is full; further ones are lost."""
LETTER = "letter"
PROGRESS = "progress.json"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Notification:
    """One change of a case, and where it came from."""

    machine: str
    position: int
    """In the machine's journal..."""
    index: int
    """...and among what the entry there led to."""
    noticed: float
    """When the service noticed it, by its own clock; the event has the time of the stream."""
    event: Mapping[str, Any]
    """As JSON has it."""

    @property
    def id(self) -> str:
        """What tells it from all others; a letter that is sent twice has it twice."""
        return f"{self.machine}/{self.position}/{self.index}"

    def body(self) -> bytes:
        """Return what receivers get: the event, with ``id`` and ``noticed``."""
        return json.dumps({"id": self.id, "noticed": self.noticed, **self.event}).encode()

    def to_bytes(self) -> bytes:
        """Return the letter as the outbox keeps it."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> Notification:
        """Read a letter that the outbox kept."""
        return cls(**json.loads(payload))

    def seal(self) -> int:
        """Return what tells the content from another one."""
        return zlib.crc32(json.dumps(self.event).encode())


class Outbox:
    """Letters in the order in which they came, and how far each reader got; threads may share it.

    Parameters
    ----------
    folder
        Where it is, or will be.
    readers
        Their names. One that is new is not told of what was before.
    clock
        Seconds since 1970.
    """

    def __init__(self, folder: str | Path, readers: Sequence[str], *, clock: Clock = time.time) -> None:
        self.folder = Path(folder)
        self.lost = 0
        """Letters that a full disk cost."""
        self._clock = clock
        self._lock = Lock()
        self._progress_lock = Lock()
        self._held: deque[Notification] = deque()
        """Those that the disk has not taken yet."""
        self._journal = Journal(self.folder / "letters", segment_bytes=SEGMENT_BYTES)
        try:
            self._read_up: dict[str, int] = self._take_up(readers)
            self._known = {
                letter.id: (letter.seal(), entry.position) for entry, letter in self.read(self._journal.begin) if letter
            }
        except BaseException:
            self._journal.close()
            raise

    @property
    def end(self) -> int:
        """Position of the next letter."""
        return self._journal.end + len(self._held)

    def put(self, machine: str, position: int, index: int, event: AlarmChange) -> bool:
        """Take a letter, and return whether it is a new one; never raises, for nobody could do anything about it."""
        letter = Notification(machine, position, index, self._clock(), json.loads(event.to_json()))
        seal = letter.seal()
        with self._lock:
            known = self._known.get(letter.id)
            if known is not None and known[0] == seal:
                return False
            if len(self._held) >= MOST_HELD:
                self.lost += 1
                return False
            self._known[letter.id] = seal, self.end
            self._held.append(letter)
            self._write()
        return True

    def read(self, begin: int) -> Iterator[tuple[Entry, Notification | None]]:
        """Return what there is from a position on; what cannot be read any more comes without a letter."""
        with self._lock:
            end, held = self._journal.end, tuple(self._held)
            written = self._journal.read(min(begin, end))
        for entry in written:
            yield entry, None if isinstance(entry, LostRecords) else Notification.from_bytes(entry.payload)
        # What the disk does not take has its place all the same: alarms go out while it is full.
        for position, letter in enumerate(held, end):
            if position >= begin:
                yield JournalRecord(position, LETTER, b""), letter

    def flush(self) -> None:
        """Bring everything onto the disk before anybody acts on it; what a full disk kept out is tried again."""
        with self._lock:
            self._write()
        self._journal.sync()

    def position(self, reader: str) -> int:
        """Return how far a reader got."""
        return self._read_up[reader]

    def advance(self, reader: str, position: int) -> None:
        """Take note how far a reader got; it outlives the process once it is saved."""
        self._read_up[reader] = position

    def save(self) -> None:
        """Save how far all readers got, and forget what all have got."""
        # Another lock than that of those who put letters in: the disk may take its time, and they have none.
        with self._progress_lock:
            self._save()
            forgotten = self._journal.forget(min([*self._read_up.values(), self._journal.end - KEPT]))
        if forgotten:
            with self._lock:
                begin = self._journal.begin
                self._known = {name: place for name, place in self._known.items() if place[1] >= begin}

    def close(self) -> None:
        """Save how far the readers got, and let another process take over."""
        try:
            self.save()
        except DataError as error:
            _log.warning("%s", error)
        finally:
            self._journal.close()

    def _write(self) -> None:
        """Write what is held, as far as the disk takes it."""
        try:
            while self._held:
                self._journal.append(LETTER, self._held[0].to_bytes())
                self._held.popleft()
        except DataError as error:
            _log.warning("%s", error)

    def _take_up(self, readers: Sequence[str]) -> dict[str, int]:
        """Return how far the readers got when the last process stopped."""
        path = self.folder / PROGRESS
        found: Mapping[str, Any] = {}
        try:
            found = {name: int(place) for name, place in json.loads(path.read_text(encoding="utf-8")).items()}
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, AttributeError) as error:
            # Twice is better than never.
            _log.warning("%s: cannot be read (%s); all letters that are left are sent again", path, error)
            found = dict.fromkeys(readers, self._journal.begin)
        # A power failure can take letters from the journal that were sent already; their places are not given again.
        self._journal.advance(max(found.values(), default=0))
        begin, end = self._journal.begin, self._journal.end
        places = {name: max(begin, found.get(name, end)) for name in readers}
        # Now, for a reader that is new must not be new again after a kill.
        self._read_up = places
        self._save()
        return places

    def _save(self) -> None:
        with replacing(self.folder / PROGRESS, DataError) as fresh:
            fresh.write_text(json.dumps(self._read_up), encoding="utf-8")
