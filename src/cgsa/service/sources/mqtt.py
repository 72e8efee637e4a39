"""Blocks from an MQTT broker.

A sender publishes each block, in its binary or its JSON form, with QoS 1 and
not retained, under a topic such as ``cgsa/pump-3/blocks``. What a broker allows
a sender to publish is all it can send: the machine in the topic must be the
machine in the block.

A block is acknowledged to the broker once it is in its machine's journal, not
before. So whatever happens to the service, a block is either in the journal or
comes again, and what comes again is known by its count and not used twice. For
that, the session is kept: the broker holds back what comes while the service is
away, as far as it has room. It also sends no more than a few blocks before the
first is acknowledged (20 with Mosquitto), and that is how a service that has
too much to do slows it down. What is published with QoS 0 enjoys none of this.

"In the journal" means that a killed process loses nothing. Of what came in the
last seconds before a power failure, up to the last saved state, some can be
lost; it shows as a gap.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

import aiomqtt

from cgsa.errors import ConfigError, DataError
from cgsa.live.plant import Plant
from cgsa.service.links.broker import Broker, Client
from cgsa.service.links.link import Clock, Sleep
from cgsa.service.sources.base import Source

MACHINE = "{machine}"
MOST_WAITING = 1000
"""Messages in memory. Those with QoS 1 never reach it, for the broker waits for us; of others, more are lost."""
FAILURE = 128
"""Codes from here on mean that a subscription is refused."""


@dataclass(frozen=True)
class MqttConfig:
    """Which broker, and what to listen to there."""

    broker: Broker = field(default_factory=Broker)
    topic: str = f"cgsa/{MACHINE}/blocks"
    """``{machine}`` stands for the name of any machine, which must then be the block's, too. The wildcards of MQTT are
    allowed beside it, or without it."""
    client_id: str = ""
    """By which the broker knows the session after a restart, so no two clients may share it; none means ``cgsa-`` and
    the name of the source."""

    def __post_init__(self) -> None:
        levels = self.topic.split("/")
        whole = self.topic.count(MACHINE) == levels.count(MACHINE) <= 1
        if not self.topic or not whole or "#" in levels[:-1]:
            raise ConfigError(
                f"topic {self.topic!r}; expected one such as 'cgsa/{MACHINE}/blocks', '{MACHINE}' a level of its own"
            )

    @property
    def subscription(self) -> str:
        """The topic as a broker understands it."""
        return self.topic.replace(MACHINE, "+")

    def machine(self, topic: str) -> str | None:
        """Return the machine that a topic names; none where it names none."""
        levels = self.topic.split("/")
        return topic.split("/")[levels.index(MACHINE)] if MACHINE in levels else None


class MqttSource(Source):
    """Listens to a broker."""

    kind = "mqtt"
    Config: ClassVar[type[object]] = MqttConfig

    def __init__(
        self,
        plant: Plant,
        config: MqttConfig,
        *,
        name: str = "mqtt",
        sleep: Sleep = asyncio.sleep,
        clock: Clock = time.time,
    ) -> None:
        super().__init__(plant, name, sleep=sleep, clock=clock)
        self.config = config

    async def live(self) -> None:
        """Listen until the broker is gone."""
        identifier = self.config.client_id or f"cgsa-{self.status.name}"
        async with _Client(**self.config.broker.options(), identifier=identifier) as client:
            codes = await client.subscribe(self.config.subscription, qos=1)
            if any(getattr(code, "value", code) >= FAILURE for code in codes):
                raise DataError(f"the broker refuses a subscription to {self.config.subscription!r}; look at its rules")
            await self.came_up()
            async for message in client.messages:
                if client.lost:
                    self.lose(client.lost)
                    client.lost = 0
                await self._receive(message)
                client.acknowledge(message)

    async def _receive(self, message: aiomqtt.Message) -> None:
        topic = message.topic.value
        if message.retain:
            # The broker would send it again with every connection, and it would be as old each time.
            self.refuse(f"{topic}: a retained message; blocks are to be published without that flag")
        else:
            await self.take(bytes(message.payload), self.config.machine(topic))


class _Client(Client):
    """A client that acknowledges nothing before it is told to; aiomqtt leaves that to paho beneath it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(clean_session=False, max_queued_incoming_messages=MOST_WAITING, **options)
        self._client.manual_ack_set(True)
        self.lost = 0
        """Messages for which there was no room."""

    def acknowledge(self, message: aiomqtt.Message) -> None:
        self._client.ack(message.mid, message.qos)

    def _on_message(self, client: Any, userdata: Any, message: Any) -> None:
        self.lost += self._queue.full()
        super()._on_message(client, userdata, message)
