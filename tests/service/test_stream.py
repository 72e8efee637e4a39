from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from starlette.types import Message

from cgsa.events import Note
from cgsa.live.plant import Plant
from cgsa.service.feed import EventFeed
from cgsa.service.stream import EventStream


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plant]:
    with Plant(tmp_path_factory.mktemp("stream"), threads=1) as found:
        yield found


@pytest.fixture
def feed(plant: Plant) -> Iterator[EventFeed]:
    found = EventFeed(plant, size=8)
    yield found
    found.close()


class Listener:
    """The other end of a stream; it takes as long for each message as a test likes."""

    def __init__(self, stream: EventStream) -> None:
        self.received: list[dict[str, Any]] = []
        self.beats = 0
        self.done = False
        self.taking = asyncio.Event()
        self.taking.set()
        self._gone = asyncio.Event()
        self._stream = stream

    async def receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await self.taking.wait()
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])
            assert headers[b"content-type"] == b"text/event-stream; charset=utf-8"
            assert b"content-length" not in headers
            return
        self.done = not message["more_body"]
        for text in message["body"].decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
            self.beats += text == ":"
            if "data" in fields:
                self.received.append({**json.loads(fields["data"]), "id": fields.get("id"), "event": fields["event"]})

    def hang_up(self) -> None:
        self._gone.set()

    async def listen(self) -> None:
        await self._stream({"type": "http"}, self.receive, self.send)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not holds():
                await asyncio.sleep(0.001)

    @property
    def texts(self) -> list[str]:
        return [str(one.get("text", one.get("message"))) for one in self.received]


def publish(feed: EventFeed, *numbers: int, machine: str = "m") -> None:
    feed._receive(machine, numbers[0], tuple(Note(machine, float(n), "test", f"note {n}") for n in numbers))


def run(scene: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await scene

    asyncio.run(bounded())


def test_a_listener_receives_new_events(feed: EventFeed) -> None:
    async def scene() -> None:
        publish(feed, 0)
        listener = Listener(EventStream(feed, machine="m"))
        task = asyncio.create_task(listener.listen())
        await listener.until(lambda: feed.listeners == 1)
        await asyncio.sleep(0.01)
        await asyncio.to_thread(publish, feed, 1, 2)
        publish(feed, 3, machine="other")
        publish(feed, 4)
        await listener.until(lambda: len(listener.received) == 3)
        assert listener.texts == ["note 1", "note 2", "note 4"]
        assert [(one["machine"], one["position"], one["index"]) for one in listener.received] == [
            ("m", 1, 0),
            ("m", 1, 1),
            ("m", 4, 0),
        ]
        listener.hang_up()
        await task
        assert feed.listeners == 0

    run(scene())


def test_a_listener_resumes_after_its_last_event(feed: EventFeed) -> None:
    async def scene() -> None:
        publish(feed, 0, 1, 2, 3)
        last = feed.since(0)[0][1].id
        listener = Listener(EventStream(feed, last=last))
        task = asyncio.create_task(listener.listen())
        await listener.until(lambda: len(listener.received) == 2)
        assert listener.texts == ["note 2", "note 3"]
        listener.hang_up()
        await task

    run(scene())


def test_a_listener_is_informed_of_lost_events(feed: EventFeed) -> None:
    async def scene() -> None:
        publish(feed, 0)
        listener = Listener(EventStream(feed, last="deadbeef-7-1.0"))
        task = asyncio.create_task(listener.listen())
        await listener.until(lambda: len(listener.received) == 2)
        assert [one["event"] for one in listener.received] == ["lost", "note"]
        listener.hang_up()
        await task

    run(scene())


def test_a_slow_listener_is_dropped_and_blocks_nobody(feed: EventFeed) -> None:
    async def scene() -> None:
        slow, quick = Listener(EventStream(feed)), Listener(EventStream(feed))
        tasks = [asyncio.create_task(one.listen()) for one in (slow, quick)]
        await quick.until(lambda: feed.listeners == 2)
        await asyncio.sleep(0.01)
        slow.taking.clear()
        for number in range(30):
            publish(feed, number)  # returns at once, whoever listens
            await quick.until(lambda number=number: len(quick.received) == number + 1)  # type: ignore[misc] # bound now
        slow.taking.set()
        await tasks[0]
        assert slow.received[-1]["event"] == "dropped"
        assert slow.done
        assert len(slow.received) < 30
        assert not tasks[1].done()
        quick.hang_up()
        await tasks[1]

    run(scene())


def test_a_listener_that_reads_nothing_is_disconnected(feed: EventFeed) -> None:
    async def scene() -> None:
        listener = Listener(EventStream(feed, send_seconds=0.05, heartbeat=0.01))
        task = asyncio.create_task(listener.listen())
        await listener.until(lambda: listener.beats > 0)
        listener.taking.clear()
        await task
        assert feed.listeners == 0

    run(scene())


def test_heartbeats_end_when_the_token_is_revoked(feed: EventFeed) -> None:
    allowed = True

    async def asked() -> bool:
        return allowed

    async def scene() -> None:
        nonlocal allowed
        listener = Listener(EventStream(feed, heartbeat=0.01, allowed=asked))
        task = asyncio.create_task(listener.listen())
        await listener.until(lambda: listener.beats > 2)
        allowed = False
        await task
        assert listener.texts == ["this token is no longer valid"]
        assert listener.done

    run(scene())


def test_shutdown_ends_all_streams(feed: EventFeed) -> None:
    async def scene() -> None:
        listener = Listener(EventStream(feed))
        task = asyncio.create_task(listener.listen())
        await listener.until(lambda: feed.listeners == 1)
        publish(feed, 1)
        feed.close()
        await task
        assert [one["event"] for one in listener.received][-1] == "bye"
        assert listener.done

    run(scene())
