"""Events as a stream that a browser or program listens to (server-sent events).

Each message has an id. Whoever was cut off shows the last one in the header
``Last-Event-ID``, as browsers do by themselves, and goes on behind it. Beside
the events of machines there are three messages of the stream itself: ``lost``
(some events are gone; ask the API for what was), ``dropped`` (this listener was
too slow) and ``bye`` (the service ends, or the token is no longer good).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cgsa.service.feed import EventFeed, FeedItem

HEARTBEAT_SECONDS = 15.0
"""So often something is said: proxies end what is silent, and a dead connection is noticed by it."""
PATIENCE_SECONDS = 30.0
"""How long a listener may take for one message."""
CHUNK = 64
"""Events that are sent at once."""


class EventStream(Response):
    """Tells one listener of events until it goes.

    Parameters
    ----------
    feed
        Where the events come from.
    machine
        Of which machine; none for all.
    last
        The id of the last event that the listener has seen, where it was here before.
    allowed
        Says whether the listener may still listen; asked with every heartbeat.
    heartbeat, patience
        In seconds.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        feed: EventFeed,
        *,
        machine: str | None = None,
        last: str | None = None,
        allowed: Callable[[], Awaitable[bool]] | None = None,
        heartbeat: float = HEARTBEAT_SECONDS,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        # Some proxies hold answers back to send them in one piece.
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._feed, self._machine, self._last = feed, machine, last
        self._allowed, self._heartbeat, self._patience = allowed, heartbeat, patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - what an answer is called with
        """Answer a request."""
        stirred = self._feed.join()
        gone = asyncio.create_task(_gone(receive, stirred))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            # A listener that takes nothing, and one whose connection broke, end the same way.
            with suppress(TimeoutError, OSError):
                await self._tell(send, stirred, gone)
        finally:
            self._feed.leave(stirred)
            gone.cancel()

    async def _tell(self, send: Send, stirred: asyncio.Event, gone: asyncio.Task[None]) -> None:
        loop = asyncio.get_running_loop()
        number, stored, lost = await run_in_threadpool(self._feed.resume, self._machine, self._last)
        await self._send(send, b"retry: 2000\n\n")
        if lost:
            await self._send(send, _message("lost", "some events are gone; ask the API for what was"))
        await self._send_all(send, stored)
        beat = loop.time() + self._heartbeat
        while not gone.done():
            stirred.clear()
            items, lost = self._feed.since(number)
            if lost:
                await self._send(send, _message("dropped", "too slow: events came faster than they were taken"))
                break
            if items:
                number = items[-1].number + 1
                await self._send_all(send, [item for item in items if self._machine in {None, item.machine}])
            if self._feed.closed:
                await self._send(send, _message("bye", "the service ends"))
                break
            if loop.time() >= beat:
                beat = loop.time() + self._heartbeat
                if self._allowed is not None and not await self._allowed():
                    await self._send(send, _message("bye", "this token is no longer good"))
                    break
                await self._send(send, b":\n\n")
            with suppress(TimeoutError):
                async with asyncio.timeout_at(beat):
                    await stirred.wait()
        await self._send(send, b"", more=False)

    async def _send_all(self, send: Send, items: Sequence[FeedItem]) -> None:
        for begin in range(0, len(items), CHUNK):
            await self._send(send, b"".join(map(_event, items[begin : begin + CHUNK])))

    async def _send(self, send: Send, body: bytes, *, more: bool = True) -> None:
        async with asyncio.timeout(self._patience):
            await send({"type": "http.response.body", "body": body, "more_body": more})


async def _gone(receive: Receive, stirred: asyncio.Event) -> None:
    """Wait until the client has gone, and wake whoever tells it something."""
    while (await receive())["type"] != "http.disconnect":
        pass
    stirred.set()


def _event(item: FeedItem) -> bytes:
    return f"id: {item.id}\nevent: {item.event.kind}\ndata: {json.dumps(item.told())}\n\n".encode()


def _message(kind: str, text: str) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'event': kind, 'message': text})}\n\n".encode()
