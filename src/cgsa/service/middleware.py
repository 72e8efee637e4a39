"""What every request passes before the app: limits per token and address, limits of bodies, and security headers."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cgsa.service.addresses import client_network
from cgsa.service.auth import Authenticator
from cgsa.service.buckets import TokenBuckets
from cgsa.service.errors import error_response
from cgsa.service.limits import BLOCKS, RequestLimits
from cgsa.service.rights import Person
from cgsa.service.traffic import TrafficCounts

PERSON_KEY = "cgsa.person"
"""Key of a request's scope: who sends it, or None."""
OPEN = frozenset({"/health", "/ready"})
"""Paths for monitoring, which are answered late, but never refused."""
BARE = ("/api", "/metrics", "/health", "/ready")
"""Paths that never return a page."""
HOLD_SECONDS = 1.0
"""How long a refusal is held back, so that a client that repeats at once costs little."""
MAX_HELD = 64
"""Requests held back at the same time; further ones are answered at once."""
NOTHING = "default-src 'none'; frame-ancestors 'none'"
"""Policy of everything but pages, which have their own."""
TRANSPORT = "max-age=31536000"
"""Browsers that reached the service over TLS use nothing else for a year (HSTS, RFC 6797)."""


class BodyLimit:
    """Ends requests whose body is too large or too slow, whatever length their header declares."""

    def __init__(self, app: ASGIApp, limits: RequestLimits) -> None:
        self._app, self._limits = app, limits
        self._held = 0
        """Bytes of bodies of all requests in progress."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count its body while it arrives."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limits.body_limit(scope["path"])
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared[:20]) > limit:
            await error_response(413, _too_large(limit))(scope, receive, send)
            return
        count, complete = 0, False
        deadline = asyncio.get_running_loop().time() + self._limits.body_seconds

        async def counted() -> Message:
            nonlocal count, complete
            if complete:
                # All that can still come is the news that the client has disconnected.
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"the body was not complete within {self._limits.body_seconds:g} s") from None
            size = len(message.get("body", b""))
            count += size
            self._held += size
            if count > limit:
                raise HTTPException(413, _too_large(limit))
            if self._held > self._limits.waiting_bytes:
                raise HTTPException(503, "too many bodies at the same time; try again", {"Retry-After": "1"})
            complete = not message.get("more_body", False)
            return message

        try:
            await self._app(scope, counted, send)
        finally:
            self._held -= count


class RateLimit:
    """Refuses requests beyond the rate of their token or, without a valid one, of their address.

    It also refuses pages' connections without a valid session, which would stay open.
    """

    def __init__(
        self, app: ASGIApp, limits: RequestLimits, authenticator: Authenticator, traffic: TrafficCounts
    ) -> None:
        self._app, self._limits, self._authenticator, self._traffic = app, limits, authenticator, traffic
        self._addresses = TokenBuckets(limits.address_rate, limits.address_burst)
        self._tokens = TokenBuckets(limits.token_rate, limits.token_burst)
        self._blocks = TokenBuckets(limits.block_rate, limits.block_burst)
        self._pages: Counter[str] = Counter()
        self._held = {True: 0, False: 0}
        """Requests that are held back now, those of monitoring apart."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on unless its client has sent too many."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        person = scope[PERSON_KEY] = self._authenticator.identify(HTTPConnection(scope))
        if scope["type"] == "websocket":
            await self._open_page(person, scope, receive, send)
        elif person is not None:
            await self._pass_token(person, scope, receive, send)
        else:
            await self._pass_address(scope, receive, send)

    async def _open_page(self, person: Person | None, scope: Scope, receive: Receive, send: Send) -> None:
        if person is None or not person.may("viewer") or self._pages[person.name] >= self._limits.token_pages:
            self._traffic.refused["page"] += 1
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "log in at /login, or close other pages"})
            return
        self._pages[person.name] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._pages[person.name] -= 1
            self._pages += Counter()  # keeps positive counts only

    async def _pass_token(self, person: Person, scope: Scope, receive: Receive, send: Send) -> None:
        is_block = scope["path"] == BLOCKS
        buckets = self._blocks if is_block else self._tokens
        if buckets.draw(person.name):
            await self._app(scope, receive, send)
            return
        self._traffic.refused["block" if is_block else "token"] += 1
        answer = _too_often(f"too many requests of {person.name}; slow down", buckets.wait(person.name))
        await answer(scope, receive, send)

    async def _pass_address(self, scope: Scope, receive: Receive, send: Send) -> None:
        watched = scope["path"] in OPEN
        # A limit of their own: others at the same address must not make the service look dead.
        key = (client_network(scope), watched)
        if not self._addresses.draw(key):
            if self._held[watched] < MAX_HELD:
                self._held[watched] += 1
                try:
                    await asyncio.sleep(HOLD_SECONDS)
                finally:
                    self._held[watched] -= 1
            if not watched:
                self._traffic.refused["address"] += 1
                # Closed, so that whoever repeats pays for a connection, too.
                answer = _too_often(
                    "too many requests from this address; slow down", self._addresses.wait(key), close=True
                )
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


class SecurityHeaders:
    """Tells browsers to load nothing from other sites, to embed nothing in other pages, and to guess no types."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and add headers to the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        bare = scope["path"].startswith(BARE)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(message, bare=bare, encrypted=scope["scheme"] == "https")
            await send(message)

        await self._app(scope, receive, with_headers)


def _add_headers(message: MutableMapping[str, Any], *, bare: bool, encrypted: bool) -> None:
    headers = MutableHeaders(scope=message)
    headers["X-Content-Type-Options"] = "nosniff"
    headers["X-Frame-Options"] = "DENY"
    # Not "no-referrer": browsers would then hide the origin of the service's own form, too.
    headers["Referrer-Policy"] = "same-origin"
    headers["Cross-Origin-Opener-Policy"] = "same-origin"
    headers["Cross-Origin-Resource-Policy"] = "same-origin"
    headers.setdefault("Content-Security-Policy", NOTHING)
    if bare:
        headers.setdefault("Cache-Control", "no-store")
    if encrypted:
        headers["Strict-Transport-Security"] = TRANSPORT


def _too_large(limit: int) -> str:
    return f"the body is too large; at most {limit} bytes are accepted"


def _too_often(message: str, wait: float, *, close: bool = False) -> ASGIApp:
    headers = {"Retry-After": str(max(1, math.ceil(wait)))} | ({"Connection": "close"} if close else {})
    return error_response(429, message, headers=headers)
