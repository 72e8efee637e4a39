"""Sessions: who has logged in with a browser.

The browser holds a random id in a cookie, the service its hash in memory. So a
restart logs everybody out, and a copy of the memory lets nobody in.
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
"""A page of another site cannot send it along, so what comes with it was meant."""


class Sessions:
    """Sessions by their ids; usable from any thread.

    Parameters
    ----------
    lifetime
        Seconds from the login on.
    most
        Sessions at a time; with one more, the oldest ends.
    clock
        In seconds; tests bring their own.
    """

    def __init__(
        self, *, lifetime: float = 12 * 3600.0, most: int = 1000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.lifetime, self.most = lifetime, most
        self._clock = clock
        self._open: OrderedDict[bytes, tuple[str, float]] = OrderedDict()
        """Name and end by the hash of the id, in the order of their ends."""
        self._lock = Lock()

    def open(self, name: str) -> str:
        """Begin a session of that name; return its id, which is kept nowhere."""
        secret = secrets.token_urlsafe(32)
        with self._lock:
            self._open[_hashed(secret)] = (name, self._clock() + self.lifetime)
            while len(self._open) > self.most:
                self._open.popitem(last=False)
        return secret

    def name_of(self, secret: str) -> str | None:
        """Return whose session it is; none where there is no such session, or no longer."""
        with self._lock:
            name, end = self._open.get(_hashed(secret), (None, 0.0))
            if name is None:
                return None
            if self._clock() < end:
                return name
            del self._open[_hashed(secret)]
            return None

    def close(self, secret: str) -> None:
        """End a session, if there is such a one."""
        with self._lock:
            self._open.pop(_hashed(secret), None)

    def close_all(self, name: str) -> None:
        """End all sessions of that name."""
        with self._lock:
            for key in [key for key, (whose, _) in self._open.items() if whose == name]:
                del self._open[key]


def _hashed(secret: str) -> bytes:
    """Return what the session is found by; the lookup tells nothing about the id, as its hash cannot be steered."""
    return hashlib.sha256(secret.encode(errors="replace")).digest()
