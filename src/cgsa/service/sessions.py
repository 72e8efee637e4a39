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
from dataclasses import dataclass
from threading import Lock

from cgsa.service.rights import Person

COOKIE = "cgsa-session"
"""Name of the cookie."""
HEADER = "x-cgsa"
"""Pages of other sites cannot send this header, so it proves that a page of this service sent the request."""


@dataclass(frozen=True)
class Session:
    """A browser that has logged in."""

    name: str
    """Name of the token, or of the person at the identity provider."""
    credential: str
    """With a token: digest of the secret with which the session began; it ends with it. Else the provider's ID token,
    with which the person logs out there."""
    end: float
    person: Person | None = None
    """Who logged in at the identity provider; None if a token says who it is."""


class Sessions:
    """Sessions by their IDs; usable from any thread.

    Parameters
    ----------
    lifetime
        Seconds from login to expiry.
    capacity
        Sessions at a time; one more ends the oldest.
    per_name
        Sessions of a name at a time; one more ends the oldest of that name, so that nobody logs others out.
    """

    def __init__(
        self,
        *,
        lifetime: float = 12 * 3600.0,
        capacity: int = 1000,
        per_name: int = 20,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lifetime, self.capacity, self.per_name = lifetime, capacity, per_name
        self._clock = clock
        self._open: OrderedDict[bytes, Session] = OrderedDict()
        """Sessions by the hashes of their IDs, in order of expiry."""
        self._lock = Lock()

    def open(self, name: str, credential: str, person: Person | None = None) -> str:
        """Begin a session for a name and return its ID, which is not stored."""
        secret = secrets.token_urlsafe(32)
        with self._lock:
            self._open[_hashed(secret)] = Session(name, credential, self._clock() + self.lifetime, person)
            own = [key for key, session in self._open.items() if session.name == name]
            for key in own[: -self.per_name]:
                del self._open[key]
            while len(self._open) > self.capacity:
                self._open.popitem(last=False)
        return secret

    def find(self, secret: str) -> Session | None:
        """Return a session by its ID; None if there is none or it has expired."""
        key = _hashed(secret)
        with self._lock:
            session = self._open.get(key)
            if session is not None and self._clock() >= session.end:
                del self._open[key]
                return None
            return session

    def close(self, secret: str) -> None:
        """End a session if it exists."""
        with self._lock:
            self._open.pop(_hashed(secret), None)

    def close_all(self, name: str) -> int:
        """End all sessions of a name; return how many there were."""
        with self._lock:
            own = [key for key, session in self._open.items() if session.name == name]
            for key in own:
                del self._open[key]
        return len(own)


def _hashed(secret: str) -> bytes:
    """Return the key of a session; its lookup reveals nothing about the ID, since nobody can choose its hash."""
    return hashlib.sha256(secret.encode(errors="replace")).digest()
