"""Authentication and authorisation: tokens, sessions, roles, and the audit.

A token is ``cgsa.<name>.<secret>``. It is looked up by its name, and its secret has 256 random bits, which nobody can
guess: a fast salted hash protects them as well as a slow one. Programs send the token with each request; a browser
sends it once and gets a session.

A name is never given to a second token, even after the first was revoked, so that the audit stays unambiguous.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import reprlib
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from starlette.requests import HTTPConnection

from cgsa.errors import CgsaError, DataError
from cgsa.live.store import AuditEntry, Store, StoredToken
from cgsa.live.worker import SERVICE
from cgsa.service.buckets import TokenBuckets
from cgsa.service.sessions import COOKIE, HEADER, Sessions

Role: TypeAlias = Literal["viewer", "operator", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""In ascending order: each role includes those before it."""
NAME = r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}"
"""Pattern of a token's name."""
NOBODY = "nobody"
"""Name in the audit of whoever sent no valid token."""
MAX_TOKEN = 200
"""Characters of a token."""
FAILURES_PER_MINUTE = 10
"""Wrong tokens per name and address; further ones are refused without being checked."""
USED_SECONDS = 60.0
"""Interval at which the use of a token is recorded."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""

_TOKEN = re.compile(rf"cgsa\.(?P<name>{NAME})\.(?P<secret>[A-Za-z0-9_-]{{43}})")


class NotAllowedError(CgsaError):
    """A request is not allowed."""

    def __init__(self, message: str, status: Literal[401, 403, 429] = 403) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status: not authenticated (401), not authorised (403), or too many requests (429)."""


@dataclass(frozen=True)
class Person:
    """A person or program with a valid token."""

    name: str
    """Name of the token."""
    role: Role

    def may(self, role: Role) -> bool:
        """Return whether the person's role includes this one."""
        return ROLES.index(self.role) >= ROLES.index(role)


class Authenticator:
    """Checks who sends a request and what they may do, and keeps the audit; usable from any thread.

    The store keeps the hashes of the tokens, and the audit.
    """

    def __init__(
        self, store: Store, *, sessions: Sessions | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.sessions = sessions or Sessions()
        self._store = store
        self._clock = clock
        self._failures = TokenBuckets(FAILURES_PER_MINUTE / 60.0, FAILURES_PER_MINUTE)
        self._used: dict[str, float] = {}
        """When the use of each token was last recorded."""
        self._lock = threading.Lock()

    def create_token(self, name: str, role: Role) -> str:
        """Return a new token; its secret is not stored, so it cannot be shown again."""
        if not re.fullmatch(NAME, name) or name in {SERVICE, NOBODY}:
            raise DataError(
                f"token {reprlib.repr(name)}: expected a name of 1 to 64 letters, digits, '.', '_', '@' or '-', "
                f"the first a letter or digit, and neither {SERVICE!r} nor {NOBODY!r}"
            )
        if role not in ROLES:
            raise DataError(f"token {name!r}: role {reprlib.repr(role)}; expected one of {', '.join(ROLES)}")
        secret = secrets.token_urlsafe(32)
        self._store.add_token(StoredToken(name, role, _digest(secret, secrets.token_bytes(16)), created=self._clock()))
        return f"cgsa.{name}.{secret}"

    def revoke(self, name: str) -> None:
        """Revoke a token, and end all sessions that began with it."""
        self._store.revoke_token(name, self._clock())
        self.sessions.close_all(name)

    def tokens(self) -> tuple[StoredToken, ...]:
        """Return all tokens, valid or revoked."""
        with self._store.read() as snapshot:
            return snapshot.tokens()

    def by_token(self, secret: str) -> Person | None:
        """Return the person of a token; None if it is not valid."""
        found = _parsed(secret)
        if found is None:
            return None
        name, hidden = found
        token = self._token(name)
        if token is None or not _matches(hidden, token.digest):
            return None
        self._record_use(name)
        return _person(token)

    def by_session(self, value: str) -> Person | None:
        """Return the person of a session; None if it has ended or its token was revoked."""
        name = self.sessions.name_of(value)
        token = None if name is None else self._token(name)
        return None if token is None else _person(token)

    def person_of(self, connection: HTTPConnection) -> Person | None:
        """Return who sends a request: by the token in its header, or else by the session in its cookie."""
        header = connection.headers.get("authorization")
        if header is not None:
            scheme, _, secret = header.partition(" ")
            return self._check_token(secret.strip(), connection) if scheme.lower() == "bearer" else None
        cookie = connection.cookies.get(COOKIE)
        return None if cookie is None else self.by_session(cookie)

    def require(self, person: Person | None, role: Role) -> Person:
        """Return the person if their role includes this one."""
        if person is None:
            raise NotAllowedError("a valid token is needed: log in at /login, or send 'Authorization: Bearer ...'", 401)
        if not person.may(role):
            raise NotAllowedError(f"{person.name} is {person.role}; that needs {role}", 403)
        return person

    def log_in(self, secret: str, connection: HTTPConnection | None = None) -> str:
        """Return the value of a session cookie for a valid token."""
        person = self._check_token(secret.strip(), connection)
        if person is None:
            raise NotAllowedError("this token is unknown or was revoked", 401)
        return self.sessions.open(person.name)

    def log_out(self, value: str) -> None:
        """End the session of a cookie."""
        self.sessions.close(value)

    def audit(
        self,
        person: Person | None,
        what: str,
        machine: str | None = None,
        connection: HTTPConnection | None = None,
        result: str = "ok",
        **details: object,
    ) -> None:
        """Record who did what."""
        who = NOBODY if person is None else person.name
        # Refused input may be quoted here and need not be valid text; the store accepts nothing else.
        result = result.encode(errors="replace").decode()
        self._store.add_audit(AuditEntry(self._clock(), who, what, machine, origin_of(connection), result, details))

    def _check_token(self, secret: str, connection: HTTPConnection | None) -> Person | None:
        """Return the person of a token, unless too many wrong ones came from the same address."""
        found = _parsed(secret)
        # By name, too: a gateway that keeps sending an old token must not lock out others behind the same address.
        key = origin_of(connection), found[0] if found else ""
        if self._failures.empty(key):
            raise NotAllowedError("too many wrong tokens; try again in a minute", 429)
        person = self.by_token(secret)
        if person is None:
            self._failures.draw(key)
        return person

    def _token(self, name: str) -> StoredToken | None:
        """Return the token of that name if it is valid."""
        with self._store.read() as snapshot:
            token = snapshot.token(name)
        return token if token is not None and token.revoked is None and token.role in ROLES else None

    def _record_use(self, name: str) -> None:
        now = self._clock()
        with self._lock:
            if now - self._used.get(name, -USED_SECONDS) < USED_SECONDS:
                return
            self._used[name] = now
        self._store.use_token(name, now)


def check_same_site(connection: HTTPConnection) -> None:
    """Refuse a request that a page of another site made a browser send (cross-site request forgery).

    A token in a header was put there on purpose. A cookie is sent automatically, so a request that relies on it must
    come from a page of this service: the browser says so, or the page proves it with a header.
    """
    if connection.scope["method"] in SAFE_METHODS or "authorization" in connection.headers:
        return
    headers = connection.headers
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    same = headers.get(HEADER) == "1"
    if not same and site is not None:
        same = site in {"same-origin", "none"}
    elif not same and origin is not None:
        same = origin.partition("://")[2].lower() == headers.get("host", "").lower() != ""
    if not same:
        raise NotAllowedError("this request comes from a page of another site, or lacks the header 'X-CGSA: 1'", 403)


def origin_of(connection: HTTPConnection | None) -> str:
    """Return the address of the client."""
    return "" if connection is None or connection.client is None else connection.client.host


def _parsed(token: str) -> tuple[str, str] | None:
    """Return name and secret of a well-formed token."""
    match = _TOKEN.fullmatch(token) if len(token) <= MAX_TOKEN else None
    return None if match is None else (match["name"], match["secret"])


def _digest(secret: str, salt: bytes) -> str:
    return f"sha256${salt.hex()}${hashlib.sha256(salt + secret.encode()).hexdigest()}"


def _matches(secret: str, digest: str) -> bool:
    """Return whether a secret belongs to a digest, in constant time."""
    parts = digest.split("$")
    try:
        salt = bytes.fromhex(parts[1])
    except (IndexError, ValueError):
        return False
    return hmac.compare_digest(_digest(secret, salt).encode(), digest.encode())


def _person(token: StoredToken) -> Person:
    role: Role = next(role for role in ROLES if role == token.role)
    return Person(token.name, role)
