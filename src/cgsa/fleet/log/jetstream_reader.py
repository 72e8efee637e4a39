"""Reads the records of one machine from JetStream, by a consumer on the server that keeps no state of importance.

The reader alone knows its position. It asks for a few records at a time and checks that none of them is missing; after
whatever failure it makes another consumer from its position on.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from cgsa.fleet.log.contract import LogReader
from cgsa.fleet.log.nats import REQUEST_SECONDS, TRANSIENT, NatsConnection
from cgsa.live.segments import JournalRecord

KIND = "Cgsa-Kind"
"""Header with the kind of a record."""
BATCH = 32
"""Records asked for at a time; at most twice as many wait in memory."""
EXPIRES, HEARTBEAT = 60.0, 10.0
"""Seconds for which the server keeps a request, and after which it tells that it does."""
SILENT = 25.0
"""Seconds without a word from the server after which the reader begins anew."""
RETRY = 0.5
NANOSECONDS = 1_000_000_000


class JetStreamReader(LogReader):
    """Receives the records of one subject of a stream from a position on."""

    def __init__(
        self, connection: NatsConnection, stream: str, subject: str, begin: int, wake: Callable[[], None]
    ) -> None:
        self._connection, self._stream, self._subject, self._wake = connection, stream, subject, wake
        self._next = max(1, begin)
        """Sequence number from which on records are missing here."""
        self._records: deque[JournalRecord] = deque()
        self._requested = 0
        """Records that the server still owes of the last request."""
        self._delivered = 0
        """Records that the present consumer has delivered."""
        self._subscription: Subscription | None = None
        self._consumer = ""
        self._last_word = 0.0
        self._begin_anew = asyncio.Event()
        self._closed = False
        self._task = asyncio.run_coroutine_threadsafe(self._keep_receiving(), connection.loop)

    def take(self) -> JournalRecord | None:
        """Return the next record; None if none has arrived."""
        try:
            record = self._records.popleft()
        except IndexError:
            return None
        if len(self._records) == BATCH or not self._records:
            self._connection.loop.call_soon_threadsafe(self._request_more)
        return record

    @property
    def waiting(self) -> int:
        """Number of records that have arrived and were not taken."""
        return len(self._records)

    @property
    def closed(self) -> bool:
        """Whether the reader receives no more records."""
        return self._closed

    def restart(self) -> None:
        """Make another consumer, since the server may have forgotten the present one; only in the client's thread."""
        self._begin_anew.set()

    def close(self) -> None:
        """Receive no more records."""
        if not self._closed:
            self._closed = True
            self._connection.loop.call_soon_threadsafe(self._begin_anew.set)

    def wait(self) -> None:
        """Wait until a reader that was closed has ended."""
        with suppress(*TRANSIENT, CancelledError):
            self._task.result(REQUEST_SECONDS)

    async def _keep_receiving(self) -> None:
        while not self._closed:
            self._begin_anew.clear()
            try:
                await self._make_consumer()
                await self._watch()
            except TRANSIENT:
                await asyncio.sleep(RETRY)
            finally:
                await self._drop_consumer()

    async def _make_consumer(self) -> None:
        client = self._connection.client
        config = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self._next,
            ack_policy=AckPolicy.NONE,
            filter_subject=self._subject,
            inactive_threshold=2 * EXPIRES,
            mem_storage=True,
            num_replicas=1,
        )
        self._requested = self._delivered = 0
        made = await client.jetstream().add_consumer(self._stream, config)
        self._consumer = made.name
        self._subscription = await client.subscribe(client.new_inbox(), cb=self._receive)
        self._request_more()

    async def _watch(self) -> None:
        """Return when the consumer has failed, or the reader is closed."""
        self._last_word = time.monotonic()
        while time.monotonic() - self._last_word < SILENT:
            try:
                await asyncio.wait_for(self._begin_anew.wait(), HEARTBEAT)
            except TimeoutError:
                continue
            return

    async def _drop_consumer(self) -> None:
        subscription, self._subscription = self._subscription, None
        try:
            if subscription is not None:
                await subscription.unsubscribe()
                await self._connection.client.jetstream().delete_consumer(self._stream, self._consumer)
        except TRANSIENT:
            return  # The server drops a consumer that nobody asks.

    def _request_more(self) -> None:
        subscription = self._subscription
        if subscription is None or self._requested or len(self._records) > BATCH:
            return
        self._requested = BATCH
        request = {
            "batch": BATCH,
            "expires": int(EXPIRES * NANOSECONDS),
            "idle_heartbeat": int(HEARTBEAT * NANOSECONDS),
        }
        name = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
        # Kept, since the loop holds tasks by weak references only.
        self._sending = asyncio.ensure_future(self._send(name, json.dumps(request).encode(), subscription.subject))

    async def _send(self, subject: str, request: bytes, reply: str) -> None:
        try:
            await self._connection.client.publish(subject, request, reply)
        except TRANSIENT:
            self._begin_anew.set()

    async def _receive(self, message: Msg) -> None:
        self._last_word = time.monotonic()
        headers = message.headers or {}
        status = headers.get("Status")
        if status == "100":
            return
        if status == "408":
            self._requested = 0
            self._request_more()
            return
        if status is not None:
            # The consumer is gone, or the server is about to stop.
            await asyncio.sleep(RETRY)
            self._begin_anew.set()
            return
        sequence = message.metadata.sequence
        if sequence.consumer != self._delivered + 1 or sequence.stream < self._next:
            self._begin_anew.set()
            return
        self._delivered += 1
        self._requested -= 1
        self._next = sequence.stream + 1
        self._records.append(JournalRecord(sequence.stream, headers.get(KIND, ""), message.data))
        self._wake()
        if not self._requested:
            self._request_more()
