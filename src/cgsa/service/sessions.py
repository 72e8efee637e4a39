"""Sessions of browsers.

The browser holds a random ID in a cookie; the service keeps its hash in memory. A restart therefore logs everybody out,
and a copy of the memory gives no access.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

COOKIE = "cgsa-session"
"""Name of the cookie."""
HEADER = "x-cgsa"
"""Pages of other sites cannot send this header, so it proves that a page of this service sent the request."""


class Sessions:
    """Sessions by their IDs; usable from any thread.

    Parameters
    ----------
    lifetime
        Seconds from login to expiry.
    capacity
        Sessions at a time; one more ends the oldest.
    """

    def __init__(
        self, *, lifetime: float = 12 * 3600.0, capacity: int = 1000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.lifetime, self.capacity = lifetime, capacity
        self._clock = clock
        self._open: OrderedDict[bytes, tuple[str, float]] = OrderedDict()
        """Name and expiry by the hash of the ID, in order of expiry."""
        self._lock = Lock()

    def open(self, name: str) -> str:
        """Begin a session for a name and return its ID, which is not stored."""
        secret = secrets.token_urlsafe(32)
        with self._lock:
            self._open[_hashed(secret)] = (name, self._clock() + self.lifetime)
            while len(self._open) > self.capacity:
                self._open.popitem(last=False)
        return secret

    def name_of(self, secret: str) -> str | None:
        """Return the name of a session; None if there is none or it has expired."""
        with self._lock:
            name, end = self._open.get(_hashed(secret), (None, 0.0))
            if name is None:
                return None
            if self._clock() < end:
                return name
            del self._open[_hashed(secret)]
            return None

    def close(self, secret: str) -> None:
        """End a session if it exists."""
        with self._lock:
            self._open.pop(_hashed(secret), None)

    def close_all(self, name: str) -> None:
        """End all sessions of a name."""
        with self._lock:
            for key in [key for key, (owner, _) in self._open.items() if owner == name]:
                del self._open[key]


def _hashed(secret: str) -> bytes:
    """Return the key of a session; its lookup reveals nothing about the ID, since nobody can choose its hash."""
    return hashlib.sha256(secret.encode(errors="replace")).digest()
