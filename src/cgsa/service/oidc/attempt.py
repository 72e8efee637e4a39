"""A login that has begun: what ties the answer of the provider to the browser that asked.

The browser keeps a random cookie. State, nonce and PKCE verifier are derived from it with a key that only this process
knows. So the service remembers nothing until a login is complete, however many are begun.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from cgsa.service.rights import NotAllowedError

MAX_SECONDS = 600.0
"""Time from the begin of a login to the answer of the provider."""


@dataclass(frozen=True)
class LoginAttempt:
    """A login that has begun."""

    cookie: str
    state: str
    nonce: str
    verifier: str
    target: str
    """Page to open after it."""

    @property
    def challenge(self) -> str:
        """The challenge of the verifier (RFC 7636, S256)."""
        return _encode(hashlib.sha256(self.verifier.encode()).digest())


class LoginAttempts:
    """Begins logins, and finds them again by their cookies."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._key = clock, secrets.token_bytes(32)

    def begin(self, target: str) -> LoginAttempt:
        """Return a new attempt."""
        return self._derive(f"{self._clock():.0f}.{secrets.token_urlsafe(16)}.{_encode(target.encode())}", target)

    def resume(self, cookie: str, state: str) -> LoginAttempt:
        """Return the attempt of a cookie if the provider returned its state."""
        begun, target = _parse(cookie)
        found = self._derive(cookie, target)
        # The state is derived from all of the cookie, so a changed one does not match either.
        if not hmac.compare_digest(found.state.encode(), state.encode(errors="replace")):
            raise NotAllowedError("this login was not begun here, or another one was begun since; log in again", 401)
        if self._clock() - begun > MAX_SECONDS:
            raise NotAllowedError(f"this login took more than {MAX_SECONDS / 60:.0f} minutes; log in again", 401)
        return found

    def _derive(self, cookie: str, target: str) -> LoginAttempt:
        state, nonce, verifier = (
            _encode(hmac.digest(self._key, f"{purpose} {cookie}".encode(errors="replace"), "sha256"))
            for purpose in ("state", "nonce", "verifier")
        )
        return LoginAttempt(cookie, state, nonce, verifier, target)


def _parse(cookie: str) -> tuple[float, str]:
    """Return when the attempt of a cookie began, and its target; nonsense is as old as can be."""
    begun, _, rest = cookie.partition(".")
    try:
        return float(begun), base64.urlsafe_b64decode(f"{rest.rpartition('.')[2]}==").decode()
    except ValueError:
        return 0.0, "/"


def _encode(content: bytes) -> str:
    """Return bytes as text for addresses and cookies."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
