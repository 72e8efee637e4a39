"""Delivery: one reader of the outbox and the receiver that it tells, in order and at least once."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from dataclasses import dataclass

from cgsa.errors import ConfigError, DataError
from cgsa.service.links.link import Clock, Link
from cgsa.service.sinks.base import RefusedNotificationError, Sink, SinkConnection
from cgsa.service.sinks.outbox import Notification, Outbox

REST_SECONDS = 0.2
"""Between two looks whether there is anything to send."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RetryPolicy:
    """How long letters wait for a receiver that is not there; what is given up is counted and told."""

    most_waiting: int = 10_000
    """Letters in the outbox; of more, the oldest are given up."""
    longest_days: float = 7.0

    def __post_init__(self) -> None:
        if self.most_waiting < 1 or not 0 < self.longest_days < math.inf:
            raise ConfigError(
                f"most_waiting {self.most_waiting}, longest_days {self.longest_days:g}; expected at least 1, and days"
            )


class Delivery(Link):
    """Sends what is in the outbox.

    Parameters
    ----------
    sink
        The receiver.
    outbox
        Knows this delivery as one of its readers.
    name
        Of the reader.
    patience
        When to give up a letter.
    clock
        Seconds since 1970.
    """

    def __init__(
        self,
        sink: Sink,
        outbox: Outbox,
        name: str,
        *,
        patience: RetryPolicy | None = None,
        clock: Clock = time.time,
    ) -> None:
        super().__init__(name, sink.kind, ("sent", "dropped"), clock=clock)
        self.sink = sink
        self.outbox = outbox
        self.patience = patience or RetryPolicy()
        self._lost = outbox.lost

    @property
    def waiting(self) -> int:
        """Letters to be looked at."""
        return self.outbox.end - self.outbox.position(self.status.name)

    async def live(self) -> None:
        """Send letters until one cannot be sent."""
        await self._flush()
        await self._give_up()
        async with self.sink.open() as line:
            while True:
                if self.waiting:
                    await self._flush()
                    await self._send_all(line)
                # Many a receiver can be known to be there only by its taking a letter.
                await self.came_up()
                await line.rest(REST_SECONDS)

    async def _send_all(self, line: SinkConnection) -> None:
        place = self.outbox.position(self.status.name)
        for entry, letter in self.outbox.read(place):
            place = entry.end
            if letter is None:
                self._drop(entry.end - entry.position, str(entry))
            elif self.sink.wants(letter):
                await self._send(line, letter)
            else:
                continue
            await self._advance(place)
        await self._advance(place)

    async def _send(self, line: SinkConnection, letter: Notification) -> None:
        try:
            await line.send(letter)
        except RefusedNotificationError as error:
            self._drop(1, str(error))
        else:
            self.count(sent=1)

    async def _give_up(self) -> None:
        """Give up what waits for too long, or is too much."""
        end, oldest = self.outbox.end, self.clock() - 86_400 * self.patience.longest_days
        place = self.outbox.position(self.status.name)
        dropped = 0
        for entry, letter in self.outbox.read(place):
            fits = end - entry.position <= self.patience.most_waiting
            if letter is None or (fits and letter.noticed >= oldest):
                break
            place = entry.end
            dropped += self.sink.wants(letter)
        if dropped:
            self._drop(dropped, "too many waited, or for too long")
        await self._advance(place)

    def _drop(self, number: int, why: str) -> None:
        self.count(dropped=number)
        self.note(f"{number} given up: {why}")
        _log.warning("%s %s: %s", self.status.kind, self.status.name, self.status.note)

    async def _advance(self, position: int) -> None:
        if position == self.outbox.position(self.status.name):
            return
        self.outbox.advance(self.status.name, position)
        try:
            await asyncio.to_thread(self.outbox.save)
        except DataError as error:
            # It is sent, and after a kill would be sent again; that is better than not to send the next one.
            self.note(str(error))

    async def _flush(self) -> None:
        try:
            await asyncio.to_thread(self.outbox.flush)
        except DataError as error:
            # Even a letter that a power failure may take from us must be sent.
            self.note(str(error))
        if self.outbox.lost > self._lost:
            self._drop(self.outbox.lost - self._lost, "the disk was full for too long")
            self._lost = self.outbox.lost
