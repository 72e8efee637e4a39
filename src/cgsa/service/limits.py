"""What one request, one client and one person may ask for at most, and the headers that browsers go by."""

from __future__ import annotations

import asyncio
import math
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cgsa.errors import ConfigError
from cgsa.live.intake.block import MAX_BYTES, MAX_HEADER_BYTES
from cgsa.service.buckets import TokenBuckets
from cgsa.service.errors import error_response

BLOCKS = "/api/blocks"
"""The one path that takes large bodies."""
OPEN = frozenset({"/health", "/ready"})
"""What watches over the service may ask as often as it likes."""
BARE = ("/api", "/metrics", "/health", "/ready")
"""Paths that never give a page."""
PAGES = "; ".join(
    (
        "default-src 'self'",
        # The pages' framework builds its templates in the browser and styles elements in place.
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
NOTHING = "default-src 'none'; frame-ancestors 'none'"


@dataclass(frozen=True)
class RequestLimits:
    """Bounds on what comes in; each default is far above what an honest client needs."""

    block_bytes: int = 16 * 2**20
    """Of the body of one block."""
    body_bytes: int = 2**16
    """Of any other body under ``/api``, and of a login."""
    page_bytes: int = 2**21
    """Of a body that a page sends."""
    body_seconds: float = 30.0
    """Until the body of a request has come."""
    client_rate: float = 300.0
    """Requests a second from one address..."""
    client_burst: float = 1500.0
    """...and at once, after a rest: a page is made of many files."""
    person_rate: float = 300.0
    """Requests a second with one token..."""
    person_burst: float = 1500.0
    """...and at once."""
    streams: int = 100
    """Clients that listen to events at a time."""

    def __post_init__(self) -> None:
        odd = [name for name, value in vars(self).items() if not 0 < value < math.inf]
        if odd:
            raise ConfigError(f"limit {odd[0]} is {getattr(self, odd[0])}; expected a positive number")
        if self.block_bytes > MAX_BYTES + MAX_HEADER_BYTES:
            raise ConfigError(f"limit block_bytes is {self.block_bytes}; a block has at most {MAX_BYTES} bytes")

    def body_limit(self, path: str) -> int:
        """Return the bytes that a body sent to a path may have."""
        if path == BLOCKS:
            return self.block_bytes
        return self.body_bytes if path == "/login" or path.startswith("/api") else self.page_bytes


class BodyLimit:
    """Ends requests whose body is too large or too slow; what the header says of its length is believed of liars only.

    Parameters
    ----------
    app
        What is behind it.
    limits
        The bounds.
    """

    def __init__(self, app: ASGIApp, limits: RequestLimits) -> None:
        self._app, self._limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, its body counted while it comes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limits.body_limit(scope["path"])
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared[:20]) > limit:
            answer = error_response(413, _too_large(limit))
            await answer(scope, receive, send)
            return
        count, whole = 0, False
        late = asyncio.get_running_loop().time() + self._limits.body_seconds

        async def counted() -> Message:
            nonlocal count, whole
            if whole:
                # What still comes is that the client has gone, whenever that is.
                return await receive()
            try:
                async with asyncio.timeout_at(late):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"no whole body within {self._limits.body_seconds:g} s") from None
            count += len(message.get("body", b""))
            if count > limit:
                raise HTTPException(413, _too_large(limit))
            whole = not message.get("more_body", False)
            return message

        await self._app(scope, counted, send)


class RateLimit:
    """Turns away clients that ask too often.

    Parameters
    ----------
    app
        What is behind it.
    limits
        The bounds.
    """

    def __init__(self, app: ASGIApp, limits: RequestLimits) -> None:
        self._app = app
        self._clients = TokenBuckets(limits.client_rate, limits.client_burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on if its client has not asked too often."""
        if scope["type"] == "http" and scope["path"] not in OPEN:
            client = scope["client"][0] if scope.get("client") else ""
            if not self._clients.draw(client):
                wait = {"Retry-After": str(max(1, math.ceil(self._clients.wait(client))))}
                answer = error_response(429, "too many requests from this address; slow down", headers=wait)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


class SecurityHeaders:
    """Tells browsers to load nothing from elsewhere, to show nothing within other pages, and to guess no types.

    Parameters
    ----------
    app
        What is behind it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and add headers to what comes back."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        bare = scope["path"].startswith(BARE)

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                headers["X-Frame-Options"] = "DENY"
                # Not "no-referrer": browsers would then hide from the service, too, that its own form was sent.
                headers["Referrer-Policy"] = "same-origin"
                headers["Cross-Origin-Opener-Policy"] = "same-origin"
                headers["Cross-Origin-Resource-Policy"] = "same-origin"
                headers.setdefault("Content-Security-Policy", NOTHING if bare else PAGES)
                if bare:
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, with_headers)


def _too_large(limit: int) -> str:
    return f"the body is too large; at most {limit} bytes are read"
