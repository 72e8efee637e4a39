"""Finds the rows that were added to a table since the last time, whoever has written them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from cgsa.live.store import Snapshot

T = TypeVar("T")

HOLD_SECONDS = 10.0
"""How long an id is waited for that a transaction has taken and not committed yet."""
MAX_ROWS = 5000
"""Rows per reading; the others follow with the next."""


class NewRows(Generic[T]):
    """Reads each new row of a table once, the oldest first; rows from before the first reading are not new.

    Writers take ids before they commit, so a row may appear after others with higher ids. If it does so more than ten
    seconds after them, it is left out.
    """

    def __init__(self, kept: type[T], clock: Callable[[], float] = time.monotonic) -> None:
        self._kept, self._clock = kept, clock
        self._begin: int | None = None
        """Ids up to this one are done with."""
        self._newest: deque[tuple[float, int]] = deque()
        """When the newest id was which, since the begin."""
        self._read: set[int] = set()
        """Ids after the begin whose rows were read."""

    def read(self, snapshot: Snapshot) -> list[T]:
        """Return the new rows."""
        if self._begin is None:
            self._begin = snapshot.newest_id(self._kept)
            return []
        ids = [one for one in snapshot.ids_after(self._kept, self._begin) if one not in self._read]
        found = snapshot.rows_from(self._kept, ids[0], MAX_ROWS) if ids else []
        fresh = {number: row for number, row in found if number not in self._read}
        self._read |= fresh.keys()
        self._move_begin(max(fresh, default=0))
        return list(fresh.values())

    def _move_begin(self, newest: int) -> None:
        now = self._clock()
        if newest:
            self._newest.append((now, newest))
        while self._newest and now - self._newest[0][0] > HOLD_SECONDS:
            self._begin = max(self._begin or 0, self._newest.popleft()[1])
        self._read = {one for one in self._read if one > (self._begin or 0)}
