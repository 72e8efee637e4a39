"""Limits per request, client and person, and security headers for browsers."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cgsa.errors import ConfigError
from cgsa.live.intake.block import MAX_BYTES, MAX_HEADER_BYTES
from cgsa.service.buckets import TokenBuckets
from cgsa.service.errors import error_response

BLOCKS = "/api/blocks"
"""The one path that accepts large bodies."""
OPEN = frozenset({"/health", "/ready"})
"""Paths without a rate limit, for monitoring."""
BARE = ("/api", "/metrics", "/health", "/ready")
"""Paths that never return a page."""
PAGES = (
    # NiceGUI compiles its templates in the browser and styles elements inline.
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'none'"
)
NOTHING = "default-src 'none'; frame-ancestors 'none'"


@dataclass(frozen=True)
class RequestLimits:
    """Limits of requests; each default is far above what an honest client needs."""

    block_bytes: int = 16 * 2**20
    """Body of one block."""
    body_bytes: int = 2**16
    """Any other body under ``/api``, and of a login."""
    page_bytes: int = 2**21
    """Body sent by a page."""
    body_seconds: float = 30.0
    """Time to receive the body of a request."""
    client_rate: float = 300.0
    """Requests per second from one address."""
    client_burst: float = 1500.0
    """Requests at once from one address after a pause: a page consists of many files."""
    person_rate: float = 300.0
    """Requests per second with one token."""
    person_burst: float = 1500.0
    """Requests at once with one token after a pause."""
    streams: int = 100
    """Clients that listen to events at the same time."""

    def __post_init__(self) -> None:
        invalid = [name for name, value in vars(self).items() if not 0 < value < math.inf]
        if invalid:
            raise ConfigError(f"limit {invalid[0]} is {getattr(self, invalid[0])}; expected a positive number")
        if self.block_bytes > MAX_BYTES + MAX_HEADER_BYTES:
            raise ConfigError(f"limit block_bytes is {self.block_bytes}; a block has at most {MAX_BYTES} bytes")

    def body_limit(self, path: str) -> int:
        """Return the largest body in bytes that a path accepts."""
        if path == BLOCKS:
            return self.block_bytes
        return self.body_bytes if path == "/login" or path.startswith("/api") else self.page_bytes


class BodyLimit:
    """Ends requests whose body is too large or too slow, whatever length their header declares."""

    def __init__(self, app: ASGIApp, limits: RequestLimits) -> None:
        self._app, self._limits = app, limits

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
            count += len(message.get("body", b""))
            if count > limit:
                raise HTTPException(413, _too_large(limit))
            complete = not message.get("more_body", False)
            return message

        await self._app(scope, counted, send)


class RateLimit:
    """Refuses clients that send too many requests."""

    def __init__(self, app: ASGIApp, limits: RequestLimits) -> None:
        self._app = app
        self._clients = TokenBuckets(limits.client_rate, limits.client_burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on unless its client has sent too many."""
        if scope["type"] == "http" and scope["path"] not in OPEN:
            client = scope["client"][0] if scope.get("client") else ""
            if not self._clients.draw(client):
                wait = {"Retry-After": str(max(1, math.ceil(self._clients.wait(client))))}
                answer = error_response(429, "too many requests from this address; slow down", headers=wait)
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
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                headers["X-Frame-Options"] = "DENY"
                # Not "no-referrer": browsers would then hide the origin of the service's own form, too.
                headers["Referrer-Policy"] = "same-origin"
                headers["Cross-Origin-Opener-Policy"] = "same-origin"
                headers["Cross-Origin-Resource-Policy"] = "same-origin"
                headers.setdefault("Content-Security-Policy", NOTHING if bare else PAGES)
                if bare:
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, with_headers)


def _too_large(limit: int) -> str:
    return f"the body is too large; at most {limit} bytes are accepted"
