"""A number for each request: in its answer, and in the log lines that it causes."""

from __future__ import annotations

import secrets
from contextvars import ContextVar

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "X-Request-ID"

_current: ContextVar[str | None] = ContextVar("request", default=None)


def current_request() -> str | None:
    """Return the number of the request that is being answered; None outside of one."""
    return _current.get()


class RequestIds:
    """Numbers requests at random; one that a client states is not used, since it could be that of another."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and add its number to the answer."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        number = secrets.token_hex(8)
        # Never taken back: the server logs what fails after this has returned. Each request is a task of its own.
        _current.set(number)

        async def numbered(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = number
            await send(message)

        await self._app(scope, receive, numbered)
