"""Delivery from the outbox to one receiver, in order and at least once."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from dataclasses import dataclass, field

from cgsa.config import formerly
from cgsa.errors import ConfigError, DataError
from cgsa.live.store import DeliveryState
from cgsa.service.links.link import Clock, Link
from cgsa.service.sinks.base import RefusedNotificationError, Sink, SinkConnection
from cgsa.service.sinks.delivery_log import DeliveryLog
from cgsa.service.sinks.outbox import Notification, Outbox

POLL_SECONDS = 0.2
"""Interval at which the outbox is checked."""
EXPIRED = "too many were waiting, or for too long"

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
    """Sends the notifications in the outbox, which has a reader of the same name, to a sink.

    ``log`` learns what becomes of them; ``escalated_only`` says that the sink gets those that are escalated to it, and
    hears of the end of such an alarm.
    """

    def __init__(
        self,
        sink: Sink,
        outbox: Outbox,
        name: str,
        *,
        retry: RetryPolicy | None = None,
        log: DeliveryLog | None = None,
        escalated_only: bool = False,
        clock: Clock = time.time,
    ) -> None:
        super().__init__(name, sink.kind, ("sent", "dropped", "failed"), clock=clock)
        self.sink = sink
        self.outbox = outbox
        self._log, self._escalated_only = log, escalated_only
        self.retry = retry or RetryPolicy()
        self._lost = outbox.lost

    @property
    def waiting(self) -> int:
        """Notifications waiting."""
        return self.outbox.end - self.outbox.position(self.status.name)

    def wants(self, notification: Notification) -> bool:
        """Return whether the sink is to get a notification."""
        if notification.sink is not None:
            return notification.sink == self.status.name
        if self._escalated_only and not self._follows(notification):
            return False
        return self.sink.wants(notification)

    async def went_down(self, why: str) -> None:
        """Record the failure for all that the sink has not delivered."""
        await super().went_down(why)
        self.count(failed=1)
        if self._log is not None:
            await asyncio.to_thread(self._log.fail, self.status.name, why)

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
            elif self.wants(notification):
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
            self._finish(notification, "failed", str(error))
        else:
            self.count(sent=1)
            self._finish(notification, "delivered")

    def _follows(self, notification: Notification) -> bool:
        """Return whether a notification says that an alarm is over which was escalated to this sink."""
        event = notification.event
        if self._log is None or event["change"] != "cleared":
            return False
        return self._log.was_notified(self.status.name, notification.machine, event["case"]["number"])

    def _finish(self, notification: Notification, state: DeliveryState, error: str = "") -> None:
        if self._log is not None and notification.event["notify"] and not notification.held:
            # Without waiting: a service that stops here would send it again.
            self._log.finish(notification, self.status.name, state, error)

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
            if self.wants(notification):
                dropped += 1
                self._finish(notification, "failed", EXPIRED)
        if dropped:
            self._drop(dropped, EXPIRED)
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
