"""Alarms for other systems, published to an MQTT broker.

Every change of a case goes out under one topic, and the case as it is then
under another, retained: who subscribes later learns at once how each machine
stands. Both with QoS 1, and a letter counts as sent when the broker has
acknowledged both.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import aiomqtt

from cgsa.errors import ConfigError
from cgsa.service.links.broker import Broker, Client
from cgsa.service.sinks.base import Sink, SinkConnection
from cgsa.service.sinks.outbox import Notification

MACHINE = "{machine}"


@dataclass(frozen=True)
class MqttSinkConfig:
    """Which broker, and under which topics."""

    broker: Broker = field(default_factory=Broker)
    changes: str = f"cgsa/{MACHINE}/alarms"
    """``{machine}`` stands for the name of the machine."""
    case: str = f"cgsa/{MACHINE}/case"

    def __post_init__(self) -> None:
        for topic in (self.changes, self.case):
            if MACHINE not in topic or {"+", "#"} & set(topic):
                raise ConfigError(f"topic {topic!r}; expected one with {MACHINE} and no wildcard")


class MqttSink(Sink):
    """Publishes letters."""

    kind: ClassVar[str] = "mqtt"
    Config: ClassVar[type[object]] = MqttSinkConfig

    def __init__(self, config: MqttSinkConfig) -> None:
        self.config = config

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SinkConnection]:
        """Connect to the broker."""
        async with Client(**self.config.broker.options()) as client:
            yield _Publications(self.config, client)


class _Publications(SinkConnection):
    def __init__(self, config: MqttSinkConfig, client: aiomqtt.Client) -> None:
        self._config, self._client = config, client

    async def send(self, letter: Notification) -> None:
        await self._client.publish(self._config.changes.replace(MACHINE, letter.machine), letter.body(), qos=1)
        case = json.dumps({"id": letter.id, "machine": letter.machine, **letter.event["case"]})
        await self._client.publish(self._config.case.replace(MACHINE, letter.machine), case, qos=1, retain=True)

    async def rest(self, seconds: float) -> None:
        # Nothing was subscribed to, so nothing comes but the news that the broker is gone.
        try:
            async with asyncio.timeout(seconds):
                await anext(aiter(self._client.messages))
        except TimeoutError:
            return
