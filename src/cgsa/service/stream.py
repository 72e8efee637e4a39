"""Server-sent events: a stream that a browser or program listens to.

Each message has an ID. A client that lost its connection sends the last one in the header ``Last-Event-ID``, as
browsers do by themselves, and resumes after it. Besides the events of machines there are three messages of the stream
itself: ``lost`` (some events are gone; read them from the API), ``dropped`` (this client is too slow, or reads too
much) and ``bye`` (the
service is shutting down, or the token is no longer valid).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress

from fastapi.sse import EventSourceResponse, format_sse_event
from starlette.concurrency import run_in_threadpool
from starlette.types import Message, Receive, Scope, Send

from cgsa.errors import CgsaError
from cgsa.service.feed import EventFeed, FeedItem

HEARTBEAT_SECONDS = 15.0
"""Interval of empty messages: proxies end silent connections, and a dead connection is noticed."""
SEND_SECONDS = 30.0
"""How long a client may take to receive one message."""
CHUNK = 64
"""Events sent at once."""


class EventStream(EventSourceResponse):
    """Sends events to one client until it disconnects.

    Parameters
    ----------
    owner
        Name of the token of the client, whose streams are limited.
    machine
        Whose events to send; None sends those of all machines.
    covers
        Returns whether the client may know of a machine.
    last
        ID of the last event that the client has received, if it was connected before.
    allowed
        Returns whether the client may still listen; called with every heartbeat.
    reading
        Returns the place in which earlier events are read from the store.
    heartbeat, send_seconds
        In seconds.
    """

    def __init__(
        self,
        feed: EventFeed,
        *,
        owner: str = "",
        machine: str | None = None,
        covers: Callable[[str], bool] = lambda _: True,
        last: str | None = None,
        allowed: Callable[[], Awaitable[bool]] | None = None,
        reading: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
        heartbeat: float = HEARTBEAT_SECONDS,
        send_seconds: float = SEND_SECONDS,
    ) -> None:
        # Some proxies buffer answers to send them in one piece.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(self._messages(), headers=headers)
        self._feed, self._machine, self._covers, self._last = feed, machine, covers, last
        self._allowed, self._reading = allowed, reading
        self._heartbeat, self._send_seconds = heartbeat, send_seconds
        self._news = feed.subscribe(owner)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        # A plain streaming response would wait for ever for a client that stops reading.
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(self._send_seconds):
                await send(message)

        try:
            # A client that reads nothing and one whose connection broke end in the same way.
            with suppress(OSError):
                await super().__call__(scope, receive, send_in_time)
        finally:
            self._feed.unsubscribe(self._news)

    async def _messages(self) -> AsyncIterator[bytes]:
        yield format_sse_event(retry=2000)
        try:
            async with self._reading():
                number, stored, lost = await run_in_threadpool(self._feed.resume, self._machine, self._last)
        except CgsaError as error:
            yield _message("dropped", str(error))
            return
        if lost:
            yield _message("lost", "some events are gone; read them from the API")
        for chunk in _chunks(stored):
            yield chunk
        async for part in self._follow(number):
            yield part

    async def _follow(self, number: int) -> AsyncIterator[bytes]:
        """Yield the events from a number on as they happen, and a heartbeat while there are none."""
        loop = asyncio.get_running_loop()
        beat = loop.time() + self._heartbeat
        while True:
            self._news.clear()
            items, lost = self._feed.since(number)
            if lost:
                yield _message("dropped", "too slow: events came faster than the client received them")
                return
            if items:
                number = items[-1].number + 1
                for chunk in _chunks([item for item in items if self._sends(item)]):
                    yield chunk
            if self._feed.closed:
                yield _message("bye", "the service is shutting down")
                return
            if loop.time() >= beat:
                beat = loop.time() + self._heartbeat
                if self._allowed is not None and not await self._allowed():
                    yield _message("bye", "this token is no longer valid")
                    return
                yield b":\n\n"
            with suppress(TimeoutError):
                async with asyncio.timeout_at(beat):
                    await self._news.wait()

    def _sends(self, item: FeedItem) -> bool:
        return self._machine in {None, item.machine} and self._covers(item.machine)


def _chunks(items: Sequence[FeedItem]) -> list[bytes]:
    messages = [format_sse_event(id=item.id, event=item.event.kind, data_str=item.json) for item in items]
    return [b"".join(messages[begin : begin + CHUNK]) for begin in range(0, len(messages), CHUNK)]


def _message(kind: str, text: str) -> bytes:
    return format_sse_event(event=kind, data_str=json.dumps({"event": kind, "message": text}))
