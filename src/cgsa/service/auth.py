"""Authentication: tokens, sessions and the audit.

A token is ``cgsa.<name>.<secret>``. It is looked up by its name, and its secret has 256 random bits, which nobody can
guess: a fast salted hash protects them as well as a slow one. Programs send the token with each request; a browser
sends it once and gets a session.

A name is never given to a second token, even after the first was revoked, so that the audit stays unambiguous. A token
that is rotated keeps its name and gets a new secret; the secret before it stays valid for a while, so that programs can
be changed one after the other.

The tokens are kept in memory: a request without a valid one costs a hash, and no access to the store.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import reprlib
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from starlette.requests import HTTPConnection

from cgsa.errors import DataError
from cgsa.live.commands import SERVICE
from cgsa.live.store import DAY, AuditEntry, Store, StoredToken
from cgsa.service.buckets import TokenBuckets
from cgsa.service.rights import ROLES, NeededRole, NotAllowedError, Person, Role, check_patterns
from cgsa.service.sessions import COOKIE, HEADER, Sessions
from cgsa.service.text import escape_controls, escape_values

NAME = r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}"
"""Pattern of a token's name."""
NOBODY = "nobody"
"""Name in the audit of whoever sent no valid token."""
MAX_TOKEN = 200
"""Characters of a token."""
FAILURES_PER_MINUTE = 10
"""Wrong tokens per name and address; further ones are refused as too many. A right token is never refused for them."""
USED_SECONDS = 60.0
"""Interval at which the use of a token is recorded."""
READ_SECONDS = 1.0
"""Interval at which the tokens are read again, in case another process has changed them."""
MAX_LIFETIME = 3660 * DAY
"""Longest time until a token expires, in seconds."""
MAX_OVERLAP = 92 * DAY
"""Longest time in which two secrets of a token are valid, in seconds."""
BUSY_WRITES = 1000
"""Writes waiting in the store beyond which the use of tokens is not recorded, so that no request waits for the disk."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""

_TOKEN = re.compile(rf"cgsa\.(?P<name>{NAME})\.(?P<secret>[A-Za-z0-9_-]{{43}})")


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
        self._known: Mapping[str, StoredToken] | None = None
        self._known_changes, self._known_at = -1, 0.0
        """Changes of the store, and time on a monotonic clock, when the tokens were read."""
        self._lock = threading.Lock()

    def create_token(
        self, name: str, role: Role, *, machines: Sequence[str] = (), lifetime: float | None = None
    ) -> str:
        """Return a new token; its secret is not stored, so it cannot be shown again.

        Parameters
        ----------
        machines
            Names or patterns of the machines that it is valid for; empty for all machines.
        lifetime
            Seconds until it expires; None for never.
        """
        if not re.fullmatch(NAME, name) or name in {SERVICE, NOBODY}:
            raise DataError(
                f"token {reprlib.repr(name)}: expected a name of 1 to 64 letters, digits, '.', '_', '@' or '-', "
                f"the first a letter or digit, and neither {SERVICE!r} nor {NOBODY!r}"
            )
        if role not in ROLES:
            raise DataError(f"token {name!r}: role {reprlib.repr(role)}; expected one of {', '.join(ROLES)}")
        now, patterns = self._clock(), check_patterns(machines)
        secret, digest = _new_secret()
        expires = _expiry(now, lifetime)
        self._store.add_token(StoredToken(name, role, digest, created=now, machines=patterns, expires=expires))
        return f"cgsa.{name}.{secret}"

    def rotate(self, name: str, *, overlap: float = 0.0, lifetime: float | None = None) -> str:
        """Return a token of the same name, role and machines with a new secret.

        Parameters
        ----------
        overlap
            Seconds in which the secret before it stays valid; 0 ends it, and its sessions, at once.
        lifetime
            Seconds until the token expires; None leaves its expiry as it is.
        """
        if not 0 <= overlap <= MAX_OVERLAP:
            raise DataError(f"overlap of {overlap:g} s; expected 0 to {MAX_OVERLAP:g} s")
        now = self._clock()
        token = self._tokens_by_name().get(name)
        if token is None or token.revoked is not None:
            raise DataError(f"there is no valid token {reprlib.repr(name)} that could be rotated")
        expires = token.expires if lifetime is None else _expiry(now, lifetime)
        if expires is not None and expires <= now:
            raise DataError(f"token {name!r} has expired; state how long the new one is valid")
        secret, digest = _new_secret()
        self._store.rotate_token(name, digest, now + overlap, expires)
        return f"cgsa.{name}.{secret}"

    def revoke(self, name: str) -> None:
        """Revoke a token, and end all sessions that began with it."""
        self._store.revoke_token(name, self._clock())
        self.sessions.close_all(name)

    def tokens(self) -> tuple[StoredToken, ...]:
        """Return all tokens, valid or not."""
        with self._store.read() as snapshot:
            return snapshot.tokens()

    def is_valid(self, token: StoredToken) -> bool:
        """Return whether a token is neither revoked nor expired."""
        expired = token.expires is not None and token.expires <= self._clock()
        return token.revoked is None and not expired and token.role in ROLES

    def by_token(self, secret: str) -> Person | None:
        """Return the person of a token; None if it is not valid."""
        found = self._match(secret)
        return None if found is None else _person(found[0])

    def by_session(self, value: str) -> Person | None:
        """Return the person of a session; None if it has ended or its token is no longer valid."""
        session = self.sessions.find(value)
        if session is not None and session.person is not None:
            return session.person
        token = None if session is None else self._token(session.name)
        if session is None or token is None or session.credential not in self._digests(token):
            return None
        return _person(token)

    def identify(self, connection: HTTPConnection) -> Person | None:
        """Return who sends a request, if anybody with a valid token; records nothing."""
        header = connection.headers.get("authorization")
        if header is not None:
            return self.by_token(_bearer(header))
        cookie = connection.cookies.get(COOKIE)
        return None if cookie is None else self.by_session(cookie)

    def person_of(self, connection: HTTPConnection) -> Person | None:
        """Return who sends a request: by the token in its header, or else by the session in its cookie."""
        header = connection.headers.get("authorization")
        if header is None or header[:7].lower() != "bearer ":
            return self.identify(connection)
        return self._check_token(_bearer(header), connection)

    def require(self, person: Person | None, role: NeededRole) -> Person:
        """Return the person if their role includes this one."""
        if person is None:
            raise NotAllowedError("a valid token is needed: log in at /login, or send 'Authorization: Bearer ...'", 401)
        if not person.may(role):
            raise NotAllowedError(f"{person.name} is {person.role}; that needs {role}", 403)
        return person

    def log_in(self, secret: str, connection: HTTPConnection | None = None) -> str:
        """Return the value of a session cookie for a valid token."""
        person = self._check_token(secret.strip(), connection)
        found = self._match(secret.strip())
        if person is None or found is None:
            raise NotAllowedError("this token is unknown or no longer valid", 401)
        if not person.may("viewer"):
            raise NotAllowedError(f"{person.name} is {person.role}, and may see no pages", 403)
        return self.sessions.open(person.name, found[1])

    def log_in_person(self, person: Person, id_token: str) -> str:
        """Return the value of a session cookie for a person who logged in at an identity provider."""
        return self.sessions.open(person.name, id_token, person)

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
        # Refused input may be quoted here and need not be valid text; the store accepts nothing else.
        who, origin = NOBODY if person is None else person.name, escape_controls(origin_of(connection))
        machine = None if machine is None else escape_controls(machine)
        recorded = {name: escape_values(value) for name, value in details.items()}
        entry = AuditEntry(self._clock(), who, what, machine, origin, escape_controls(result), recorded)
        self._store.add_audit(entry)

    def _check_token(self, secret: str, connection: HTTPConnection | None) -> Person | None:
        """Return the person of a token, and record its use; count wrong tokens."""
        person = self.by_token(secret)
        if person is not None:
            self._record_use(person.name)
            return person
        found = _parsed(secret)
        # By name, too: a gateway that keeps sending an old token must not use up what others at its address have.
        key = origin_of(connection), found[0] if found else ""
        if not self._failures.draw(key):
            raise NotAllowedError(
                "too many wrong tokens; try again in a minute", 429, retry_after=self._failures.wait(key)
            )
        return None

    def _match(self, secret: str) -> tuple[StoredToken, str] | None:
        """Return the valid token with a secret, and the digest that matches."""
        found = _parsed(secret)
        token = None if found is None else self._token(found[0])
        if found is None or token is None:
            return None
        digest = next((one for one in self._digests(token) if _matches(found[1], one)), None)
        return None if digest is None else (token, digest)

    def _digests(self, token: StoredToken) -> tuple[str, ...]:
        """Return the digests of the secrets that are valid now."""
        overlaps = token.previous_until is not None and self._clock() < token.previous_until
        return (token.digest, token.previous) if token.previous is not None and overlaps else (token.digest,)

    def _token(self, name: str) -> StoredToken | None:
        """Return the token of that name if it is valid."""
        token = self._tokens_by_name().get(name)
        return token if token is not None and self.is_valid(token) else None

    def _tokens_by_name(self) -> Mapping[str, StoredToken]:
        """Return all tokens as they are kept in memory; reads them again if they may have changed."""
        changes, now = self._store.token_changes, time.monotonic()
        known = self._known
        if known is not None and changes == self._known_changes and now - self._known_at < READ_SECONDS:
            return known
        try:
            found = {token.name: token for token in self.tokens()}
        except DataError:
            if known is None:
                raise
            # While the store cannot be read, those who are in stay in.
            return known
        self._known, self._known_changes, self._known_at = found, changes, now
        return found

    def _record_use(self, name: str) -> None:
        now = self._clock()
        with self._lock:
            if now - self._used.get(name, -USED_SECONDS) < USED_SECONDS or self._store.waiting > BUSY_WRITES:
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


def _bearer(header: str) -> str:
    """Return the token in a header; empty if there is none."""
    scheme, _, secret = header.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def _expiry(now: float, lifetime: float | None) -> float | None:
    """Return when a token expires."""
    if lifetime is not None and not 0 < lifetime <= MAX_LIFETIME:
        raise DataError(f"a token for {lifetime:g} s; expected more than 0 and at most {MAX_LIFETIME:g} s")
    return None if lifetime is None else now + lifetime


def _new_secret() -> tuple[str, str]:
    """Return a secret and its digest."""
    secret = secrets.token_urlsafe(32)
    return secret, _digest(secret, secrets.token_bytes(16))


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
    return Person(token.name, cast("Role", token.role), token.machines)
