"""Blocks from an MQTT broker.

A sender publishes each block, in binary form or as JSON, with QoS 1 and not retained, under a topic such as
``cgsa/pump-3/blocks``. The machine in the topic must be the machine in the block, so the broker's access rules decide
who may send for which machine.

A block is acknowledged to the broker only once it is in its machine's journal. Whatever happens to the service, a
block is either in the journal or comes again, and a repeated block is recognised by its number and not used twice. The
session is persistent: the broker keeps what comes while the service is away, as far as it has room. It also sends only
a few blocks before the first is acknowledged (20 with Mosquitto), so an overloaded service slows it down. None of this
holds for messages with QoS 0.

A block that cannot be used is acknowledged, too, and the reason is published under the topic ``refusals``, as JSON with
the machine and a text: for what is wrong with a block by itself at once, for the rest with the next block.

"In the journal" means that a killed process loses nothing. A power failure can lose blocks of the last seconds, since
the last saved state; they show as a gap.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import aiomqtt

from cgsa.errors import ConfigError, DataError
from cgsa.live.intake.block import check_machine
from cgsa.service.links.broker import Broker, MqttClient
from cgsa.service.sources.base import Source
from cgsa.service.sources.held_blocks import Done

MACHINE = "{machine}"
MAX_WAITING = 1000
"""Messages in memory. QoS 1 never reaches this limit, since the broker waits for us; with QoS 0, more are lost."""
FAILURE = 128
"""Reason codes from here on mean that a subscription is refused."""


@dataclass(frozen=True)
class MqttConfig:
    """The broker and the topic."""

    broker: Broker = field(default_factory=Broker)
    topic: str = f"cgsa/{MACHINE}/blocks"
    """``{machine}`` matches the name of any machine, which must then be the block's, too. The wildcards of MQTT are
    allowed besides it or instead of it."""
    client_id: str = ""
    """Identifies the session after a restart, so no two clients may share it; empty means ``cgsa-`` and the name of the
    source."""
    refusals: str = f"cgsa/{MACHINE}/refused"
    """Where senders learn why a block was refused; empty means nowhere."""

    def __post_init__(self) -> None:
        levels = self.topic.split("/")
        separate = self.topic.count(MACHINE) == levels.count(MACHINE) <= 1
        if not self.topic or not separate or "#" in levels[:-1]:
            raise ConfigError(
                f"topic {self.topic!r}; expected one such as 'cgsa/{MACHINE}/blocks', '{MACHINE}' a level of its own"
            )

        if self.refusals and (MACHINE not in self.refusals or {"+", "#"} & set(self.refusals)):
            raise ConfigError(f"refusals {self.refusals!r}; expected a topic with {MACHINE} and no wildcard, or none")

    @property
    def subscription(self) -> str:
        """The topic with MQTT wildcards."""
        return self.topic.replace(MACHINE, "+")

    def machine(self, topic: str) -> str | None:
        """Return the machine that a topic names; None if it names none."""
        levels = self.topic.split("/")
        return topic.split("/")[levels.index(MACHINE)] if MACHINE in levels else None


class MqttSource(Source):
    """Receives blocks from a broker."""

    kind = "mqtt"
    Config: ClassVar[type[object]] = MqttConfig
    config: MqttConfig
    _client: aiomqtt.Client | None = None

    async def connect(self) -> None:
        """Receive blocks until the connection ends."""
        identifier = self.config.client_id or f"cgsa-{self.status.name}"
        async with _AcknowledgingClient(**self.config.broker.options(), identifier=identifier) as client:
            codes = await client.subscribe(self.config.subscription, qos=1)
            if any(getattr(code, "value", code) >= FAILURE for code in codes):
                raise DataError(
                    f"the broker refuses to subscribe to {self.config.subscription!r}; check its access rules"
                )
            # The broker sends again what was not acknowledged over the connection before.
            self._held.clear()
            await self.came_up()
            self._client = client
            async for message in client.messages:
                if client.lost:
                    self.lose(client.lost)
                    client.lost = 0
                await self._receive(message, partial(client.acknowledge, message))

    async def answer_refusal(self, machine: str, why: str) -> None:
        """Publish the reason."""
        try:
            check_machine(machine)
        except DataError:
            return  # The name of a topic may not contain just anything.
        if self.config.refusals and self._client is not None:
            answer = json.dumps({"machine": machine, "message": why})
            await self._client.publish(self.config.refusals.replace(MACHINE, machine), answer, qos=0)

    async def _receive(self, message: aiomqtt.Message, done: Done) -> None:
        topic = message.topic.value
        if message.retain:
            # The broker would send it again with every connection, older each time.
            await self.refuse(f"{topic}: a retained message; expected blocks without that flag")
            done()
        else:
            await self.accept(bytes(message.payload), self.config.machine(topic), done)


class _AcknowledgingClient(MqttClient):
    """A client that acknowledges messages only on request; aiomqtt leaves that to paho."""

    def __init__(self, **options: Any) -> None:
        super().__init__(clean_session=False, max_queued_incoming_messages=MAX_WAITING, **options)
        self._client.manual_ack_set(True)
        self.lost = 0
        """Messages lost because the queue was full."""

    def acknowledge(self, message: aiomqtt.Message) -> None:
        self._client.ack(message.mid, message.qos)

    def _on_message(self, client: Any, userdata: Any, message: Any) -> None:
        self.lost += self._queue.full()
        super()._on_message(client, userdata, message)
