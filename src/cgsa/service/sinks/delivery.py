"""Delivery from the outbox to one receiver, in order and at least once."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from dataclasses import dataclass, field

from cgsa.config import formerly
from cgsa.errors import ConfigError, DataError
from cgsa.service.links.link import Clock, Link
from cgsa.service.sinks.base import RefusedNotificationError, Sink, SinkConnection
from cgsa.service.sinks.outbox import Notification, Outbox

POLL_SECONDS = 0.2
"""Interval at which the outbox is checked."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RetryPolicy:
    """How long notifications wait for an unreachable receiver; dropped ones are counted and logged."""

    max_waiting: int = field(default=10_000, metadata=formerly("most_waiting"))
    """Notifications in the outbox; if there are more, the oldest are dropped."""
    longest_days: float = 7.0

    def __post_init__(self) -> None:
        if self.max_waiting < 1 or not 0 < self.longest_days < math.inf:
            raise ConfigError(
                f"max_waiting {self.max_waiting}, longest_days {self.longest_days:g}; expected at least 1, and days"
            )


class Delivery(Link):
    """Sends the notifications in the outbox, which has a reader of the same name, to a sink."""

    def __init__(
        self, sink: Sink, outbox: Outbox, name: str, *, retry: RetryPolicy | None = None, clock: Clock = time.time
    ) -> None:
        super().__init__(name, sink.kind, ("sent", "dropped"), clock=clock)
        self.sink = sink
        self.outbox = outbox
        self.retry = retry or RetryPolicy()
        self._lost = outbox.lost

    @property
    def waiting(self) -> int:
        """Notifications waiting."""
        return self.outbox.end - self.outbox.position(self.status.name)

    async def connect(self) -> None:
        """Send notifications until one cannot be sent."""
        await self._flush()
        await self._drop_expired()
        async with self.sink.open() as connection:
            while True:
                if self.waiting:
                    await self._flush()
                    await self._send_all(connection)
                # For many receivers, only an accepted notification shows that they are reachable.
                await self.came_up()
                await connection.wait(POLL_SECONDS)

    async def _send_all(self, connection: SinkConnection) -> None:
        place = self.outbox.position(self.status.name)
        for entry, notification in self.outbox.read(place):
            place = entry.end
            if notification is None:
                self._drop(entry.end - entry.position, str(entry))
            elif self.sink.wants(notification):
                await self._send(connection, notification)
            else:
                continue
            await self._advance(place)
        await self._advance(place)

    async def _send(self, connection: SinkConnection, notification: Notification) -> None:
        try:
            await connection.send(notification)
        except RefusedNotificationError as error:
            self._drop(1, str(error))
        else:
            self.count(sent=1)

    async def _drop_expired(self) -> None:
        """Drop notifications that are too old or too many."""
        end, oldest = self.outbox.end, self.clock() - 86_400 * self.retry.longest_days
        place = self.outbox.position(self.status.name)
        dropped = 0
        for entry, notification in self.outbox.read(place):
            fits = end - entry.position <= self.retry.max_waiting
            if notification is None or (fits and notification.noticed >= oldest):
                break
            place = entry.end
            dropped += self.sink.wants(notification)
        if dropped:
            self._drop(dropped, "too many were waiting, or for too long")
        await self._advance(place)

    def _drop(self, number: int, why: str) -> None:
        self.count(dropped=number)
        self.note(f"{number} dropped: {why}")
        _log.warning("%s %s: %s", self.status.kind, self.status.name, self.status.note)

    async def _advance(self, position: int) -> None:
        if position == self.outbox.position(self.status.name):
            return
        self.outbox.advance(self.status.name, position)
        try:
            await asyncio.to_thread(self.outbox.save)
        except DataError as error:
            # After a kill it would be sent again, which is better than not sending the next one.
            self.note(str(error))

    async def _flush(self) -> None:
        try:
            await asyncio.to_thread(self.outbox.flush)
        except DataError as error:
            # A notification must be sent even if a power failure could lose it.
            self.note(str(error))
        if self.outbox.lost > self._lost:
            self._drop(self.outbox.lost - self._lost, "the disk was full for too long")
            self._lost = self.outbox.lost
