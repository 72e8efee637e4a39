"""Alarms for other systems, published to an MQTT broker.

Every change of a case is published under one topic, and the case after the change under another, retained: a new
subscriber at once receives the status of each machine. Both use QoS 1, and a notification counts as sent when the
broker has acknowledged both.
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
from cgsa.service.links.broker import Broker, MqttClient
from cgsa.service.sinks.base import Sink, SinkConnection
from cgsa.service.sinks.outbox import Notification

MACHINE = "{machine}"


@dataclass(frozen=True)
class MqttSinkConfig:
    """The broker and the topics."""

    broker: Broker = field(default_factory=Broker)
    changes: str = f"cgsa/{MACHINE}/alarms"
    """``{machine}`` stands for the name of the machine."""
    case: str = f"cgsa/{MACHINE}/case"
    """Topic of the present case, which the broker keeps."""

    def __post_init__(self) -> None:
        for topic in (self.changes, self.case):
            if MACHINE not in topic or {"+", "#"} & set(topic):
                raise ConfigError(f"topic {topic!r}; expected one with {MACHINE} and no wildcard")


class MqttSink(Sink):
    """Publishes notifications."""

    kind: ClassVar[str] = "mqtt"
    Config: ClassVar[type[object]] = MqttSinkConfig

    def __init__(self, config: MqttSinkConfig) -> None:
        self.config = config

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SinkConnection]:
        """Connect to the broker."""
        async with MqttClient(**self.config.broker.options()) as client:
            yield _Publications(self.config, client)


class _Publications(SinkConnection):
    def __init__(self, config: MqttSinkConfig, client: aiomqtt.Client) -> None:
        self._config, self._client = config, client

    async def send(self, notification: Notification) -> None:
        machine = notification.machine
        await self._client.publish(self._config.changes.replace(MACHINE, machine), notification.body(), qos=1)
        case = json.dumps({"id": notification.id, "machine": machine, **notification.event["case"]})
        await self._client.publish(self._config.case.replace(MACHINE, machine), case, qos=1, retain=True)

    async def wait(self, seconds: float) -> None:
        # There is no subscription, so all that can come is an error that the broker is gone.
        try:
            async with asyncio.timeout(seconds):
                await anext(aiter(self._client.messages))
        except TimeoutError:
            return
