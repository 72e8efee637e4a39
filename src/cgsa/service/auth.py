"""Who may do what: tokens, sessions, roles, and the record of what was done.

A token is ``cgsa.<name>.<secret>``. It carries its name, so it is looked up by
its key, and its secret is 256 random bits, which nobody guesses: a salted hash
that is quick to compute guards them as well as a slow one would. Programs show
the token with each request; a browser shows it once and gets a session.

A name is given to one token ever, also after that was revoked: the record of
what was done stays clear.
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
"""Each may do what those before it may."""
NAME = r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}"
"""What the name of a token looks like."""
NOBODY = "nobody"
"""Who did what was done without a good token."""
MAX_TOKEN = 200
"""Characters of a token; whatever is longer is none."""
FAILURES_A_MINUTE = 10
"""Wrong tokens of one name from one place; further ones are refused unread."""
USED_SECONDS = 60.0
"""A token that is used all the time is written down as used so often."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""They change nothing."""

_TOKEN = re.compile(rf"cgsa\.(?P<name>{NAME})\.(?P<secret>[A-Za-z0-9_-]{{43}})")


class NotAllowedError(CgsaError):
    """Somebody may not do what they asked for."""

    def __init__(self, message: str, status: Literal[401, 403, 429] = 403) -> None:
        super().__init__(message)
        self.status = status
        """As HTTP has it: who are you (401), you may not (403), or not so often (429)."""


@dataclass(frozen=True)
class Person:
    """Somebody, or some program, that showed a good token."""

    name: str
    """Of the token."""
    role: Role

    def may(self, role: Role) -> bool:
        """Return whether the person may do what this role may."""
        return ROLES.index(self.role) >= ROLES.index(role)


class Authenticator:
    """Lets people in, says what they may, and writes down what they did; usable from any thread.

    Parameters
    ----------
    store
        Keeps hashes of the tokens, and the audit.
    sessions
        Who has logged in with a browser.
    clock
        Seconds since 1970; tests bring their own.
    """

    def __init__(
        self, store: Store, *, sessions: Sessions | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.sessions = sessions or Sessions()
        self._store = store
        self._clock = clock
        self._failures = TokenBuckets(FAILURES_A_MINUTE / 60.0, FAILURES_A_MINUTE)
        self._used: dict[str, float] = {}
        """When the use of each token was last written down."""
        self._lock = threading.Lock()

    def create_token(self, name: str, role: Role) -> str:
        """Return a new token, which is shown now and never again."""
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
        """End a token for good, and all sessions that began with it."""
        self._store.revoke_token(name, self._clock())
        self.sessions.close_all(name)

    def tokens(self) -> tuple[StoredToken, ...]:
        """Return all tokens, good or revoked."""
        with self._store.read() as snapshot:
            return snapshot.tokens()

    def by_token(self, secret: str) -> Person | None:
        """Return whose token it is; none where it is not good."""
        found = _parsed(secret)
        if found is None:
            return None
        name, hidden = found
        token = self._token(name)
        if token is None or not _fits(hidden, token.digest):
            return None
        self._note_use(name)
        return _person(token)

    def by_session(self, value: str) -> Person | None:
        """Return whose session it is; none where it is over, or its token was revoked."""
        name = self.sessions.name_of(value)
        token = None if name is None else self._token(name)
        return None if token is None else _person(token)

    def person_of(self, connection: HTTPConnection) -> Person | None:
        """Return who asks: by the token of the header, or else by the session of the cookie."""
        header = connection.headers.get("authorization")
        if header is not None:
            scheme, _, secret = header.partition(" ")
            return self._tried(secret.strip(), connection) if scheme.lower() == "bearer" else None
        cookie = connection.cookies.get(COOKIE)
        return None if cookie is None else self.by_session(cookie)

    def require(self, person: Person | None, role: Role) -> Person:
        """Return the person if they may do what this role may."""
        if person is None:
            raise NotAllowedError("a good token is needed: log in at /login, or send 'Authorization: Bearer ...'", 401)
        if not person.may(role):
            raise NotAllowedError(f"{person.name} is {person.role}; that needs {role}", 403)
        return person

    def log_in(self, secret: str, connection: HTTPConnection | None = None) -> str:
        """Return the value of a session cookie for whoever shows a good token."""
        person = self._tried(secret.strip(), connection)
        if person is None:
            raise NotAllowedError("this token is not known, or was revoked", 401)
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
        """Write down who did what."""
        who = NOBODY if person is None else person.name
        # What was refused is quoted, and need not be proper text; the store takes no other.
        result = result.encode(errors="replace").decode()
        self._store.add_audit(AuditEntry(self._clock(), who, what, machine, origin_of(connection), result, details))

    def _tried(self, secret: str, connection: HTTPConnection | None) -> Person | None:
        """Return whose token it is, unless too many wrong ones came from there."""
        found = _parsed(secret)
        # By name, too: a gateway that goes on with an old token must not shut out its neighbours behind one address.
        key = origin_of(connection), found[0] if found else ""
        if self._failures.empty(key):
            raise NotAllowedError("too many wrong tokens; try again in a minute", 429)
        person = self.by_token(secret)
        if person is None:
            self._failures.draw(key)
        return person

    def _token(self, name: str) -> StoredToken | None:
        """Return the token of that name if it is good."""
        with self._store.read() as snapshot:
            token = snapshot.token(name)
        return token if token is not None and token.revoked is None and token.role in ROLES else None

    def _note_use(self, name: str) -> None:
        now = self._clock()
        with self._lock:
            if now - self._used.get(name, -USED_SECONDS) < USED_SECONDS:
                return
            self._used[name] = now
        self._store.use_token(name, now)


def check_meant(connection: HTTPConnection) -> None:
    """Refuse what a page of another site made a browser do in somebody's name.

    A token in a header was put there on purpose. A cookie is sent along by
    itself, so where it is what lets somebody in, the request must come from a
    page of this service: the browser says so, or the page proves it.
    """
    if connection.scope["method"] in SAFE_METHODS or "authorization" in connection.headers:
        return
    headers = connection.headers
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    meant = headers.get(HEADER) == "1"
    if not meant and site is not None:
        meant = site in {"same-origin", "none"}
    elif not meant and origin is not None:
        meant = origin.partition("://")[2].lower() == headers.get("host", "").lower() != ""
    if not meant:
        raise NotAllowedError("this request comes from a page of another site, or lacks the header 'X-CGSA: 1'", 403)


def origin_of(connection: HTTPConnection | None) -> str:
    """Return the address that a request came from."""
    return "" if connection is None or connection.client is None else connection.client.host


def _parsed(token: str) -> tuple[str, str] | None:
    """Return name and secret of what looks like a token."""
    match = _TOKEN.fullmatch(token) if len(token) <= MAX_TOKEN else None
    return None if match is None else (match["name"], match["secret"])


def _digest(secret: str, salt: bytes) -> str:
    return f"sha256${salt.hex()}${hashlib.sha256(salt + secret.encode()).hexdigest()}"


def _fits(secret: str, digest: str) -> bool:
    """Return whether a secret is the one of a digest; the time it takes tells nothing about how near it came."""
    parts = digest.split("$")
    try:
        salt = bytes.fromhex(parts[1])
    except (IndexError, ValueError):
        return False
    return hmac.compare_digest(_digest(secret, salt).encode(), digest.encode())


def _person(token: StoredToken) -> Person:
    role: Role = next(role for role in ROLES if role == token.role)
    return Person(token.name, role)
