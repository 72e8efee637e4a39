from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from cgsa.errors import ConfigError
from cgsa.service.links.link import supervise
from cgsa.service.sinks.base import RefusedNotificationError, Sink, SinkConnection
from cgsa.service.sinks.delivery import Delivery, RetryPolicy
from cgsa.service.sinks.outbox import Notification, Outbox
from tests.live.faults import failing
from tests.service.sinks.notifications import progress, put
from tests.service.sources.counterparts import until


class Notebook(Sink, SinkConnection):
    """A receiver that records what it gets, unless it is set to fail."""

    kind: ClassVar[str] = "notebook"

    def __init__(self, fail: Callable[[Notification], Exception | None] = lambda _: None) -> None:
        self.got: list[int] = []
        self.tries = 0
        self.fail = fail

    def wants(self, notification: Notification) -> bool:
        return bool(notification.event["notify"])

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SinkConnection]:
        yield self

    async def send(self, notification: Notification) -> None:
        self.tries += 1
        error = self.fail(notification)
        if error is not None:
            raise error
        self.got.append(notification.position)

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(0.001)


def failing_times(times: int, *, at: int) -> Callable[[Notification], Exception | None]:
    left = iter(range(times))
    return lambda notification: (
        OSError("gone") if notification.position == at and next(left, None) is not None else None
    )


async def no_time(_: float) -> None:
    await asyncio.sleep(0.001)


def deliver(delivery: Delivery, ready: Callable[[], bool]) -> None:
    async def main() -> None:
        task = asyncio.create_task(supervise(delivery, sleep=no_time))
        await until(ready)
        task.cancel()

    asyncio.run(main())


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    box = Outbox(tmp_path, ["a", "b"])
    yield box
    box.close()


def test_wanted_notifications_are_sent_once_and_in_order(tmp_path: Path, outbox: Outbox) -> None:
    put(outbox, 1, 2)
    put(outbox, 3, notify=False)
    put(outbox, 4)
    put(outbox, 5, notify=False)
    sink = Notebook()
    delivery = Delivery(sink, outbox, "a")
    deliver(delivery, lambda: delivery.status.state == "up")
    assert sink.got == [1, 2, 4]
    assert (delivery.status.counts["sent"], delivery.waiting) == (3, 0)
    outbox.save()
    assert progress(tmp_path) == {"a": 5, "b": 0}
    # Another one goes on where this one stopped.
    put(outbox, 6)
    deliver(Delivery(sink, outbox, "a"), lambda: len(sink.got) == 4)
    assert sink.got == [1, 2, 4, 6]


def test_a_failing_receiver_gets_the_same_notification_again(outbox: Outbox) -> None:
    put(outbox, 1, 2, 3)
    failures = iter(range(5))
    sink = Notebook(
        lambda notification: (
            OSError("gone") if notification.position == 2 and next(failures, None) is not None else None
        )
    )
    delivery = Delivery(sink, outbox, "a")
    deliver(delivery, lambda: delivery.status.state == "up")
    assert (sink.got, sink.tries) == ([1, 2, 3], 8)
    assert delivery.status.counts == {"sent": 3, "dropped": 0, "failed": 5, "disconnects": 0, "reconnects": 0}


def test_a_refused_notification_does_not_block_the_next(outbox: Outbox) -> None:
    put(outbox, 1, 2, 3)
    sink = Notebook(lambda sent: RefusedNotificationError("never") if sent.position == 2 else None)
    delivery = Delivery(sink, outbox, "a")
    deliver(delivery, lambda: delivery.status.state == "up")
    assert sink.got == [1, 3]
    assert delivery.status.counts["dropped"] == 1
    assert delivery.status.note == "1 dropped: never"


def test_a_dead_receiver_blocks_no_other_and_its_notifications_expire(tmp_path: Path) -> None:
    now = 1000.0
    outbox = Outbox(tmp_path, ["dead", "alive"], clock=lambda: now)
    dead, alive = Notebook(lambda _: OSError("gone")), Notebook()
    patience = RetryPolicy(max_waiting=4, longest_days=1.0)
    first = Delivery(dead, outbox, "dead", retry=patience, clock=lambda: now)
    second = Delivery(alive, outbox, "alive", retry=patience, clock=lambda: now)

    async def main() -> None:
        nonlocal now
        tasks = [asyncio.create_task(supervise(each, sleep=no_time)) for each in (first, second)]
        put(outbox, 1, 2)
        put(outbox, 3, notify=False)
        await until(lambda: alive.got == [1, 2] and dead.tries > 2 and second.status.state == "up")
        assert (first.status.state, first.waiting) == ("down", 3)
        put(outbox, 4, 5, 6)
        # Six wait, four may: the two oldest go.
        await until(lambda: first.waiting == 4 and alive.got == [1, 2, 4, 5, 6])
        assert first.status.counts["dropped"] == 2
        now += 86_401
        # All are too old now; the one that nobody wanted was no loss.
        await until(lambda: first.waiting == 0)
        assert first.status.counts["dropped"] == 5
        assert first.status.note.endswith("dropped: too many were waiting, or for too long")
        dead.fail = lambda _: None
        put(outbox, 7)
        await until(lambda: dead.got == [7])
        for task in tasks:
            task.cancel()

    asyncio.run(main())
    outbox.close()


def test_notifications_lost_to_a_full_disk_are_counted_once(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, ["a"])
    put(outbox, 1)
    outbox.close()
    (tmp_path / "progress.json").write_text('{"a": 0, "b": 3}')
    outbox = Outbox(tmp_path, ["a", "b"])
    put(outbox, 4)
    failures = iter(range(3))
    sink = Notebook(
        lambda notification: (
            OSError("gone") if notification.position == 4 and next(failures, None) is not None else None
        )
    )
    delivery = Delivery(sink, outbox, "a")
    deliver(delivery, lambda: delivery.status.state == "up")
    assert sink.got == [1, 4]
    assert delivery.status.counts["dropped"] == 2
    outbox.close()


def test_a_full_disk_delays_no_alarm(outbox: Outbox) -> None:
    sink = Notebook()
    delivery = Delivery(sink, outbox, "a")
    with failing(1, lasting=True):
        put(outbox, 1, 2)
        deliver(delivery, lambda: len(sink.got) == 2)
        assert "cannot be written" in delivery.status.note
    put(outbox, 3)
    deliver(delivery, lambda: len(sink.got) == 3)
    assert sink.got == [1, 2, 3]


@pytest.mark.parametrize(("most", "days"), [(0, 1.0), (1, 0.0), (1, float("inf"))])
def test_the_retry_policy_is_checked(most: int, days: float) -> None:
    with pytest.raises(ConfigError, match="expected at least 1"):
        RetryPolicy(most, days)
