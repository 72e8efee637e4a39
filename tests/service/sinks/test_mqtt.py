from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from cgsa.errors import ConfigError
from cgsa.service.links import broker as broker_module
from cgsa.service.links.link import supervise
from cgsa.service.sinks.delivery import Delivery
from cgsa.service.sinks.mqtt import MqttSink, MqttSinkConfig
from cgsa.service.sinks.outbox import Outbox
from tests.service.sinks.notifications import put
from tests.service.sources.counterparts import Broker, running, until


async def retained(broker: Broker, topic: str) -> dict[str, Any]:
    """What one learns who comes later."""
    async with aiomqtt.Client("127.0.0.1", broker.port) as client:
        await client.subscribe(topic)
        async with asyncio.timeout(5):
            message = await anext(aiter(client.messages))
    assert message.retain
    found: dict[str, Any] = json.loads(bytes(message.payload))
    return found


async def listen(broker: Broker, received: list[str]) -> None:
    while True:
        try:
            async with aiomqtt.Client(
                "127.0.0.1", broker.port, identifier="listener", clean_session=False, timeout=1
            ) as client:
                await client.subscribe("cgsa/+/alarms", qos=1)
                received.append("listens")
                async for message in client.messages:
                    received += [json.loads(bytes(message.payload))["id"]]
        except aiomqtt.MqttError:
            await asyncio.sleep(0.02)


def test_changes_survive_a_broker_restart_and_cases_are_retained(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox", ["mqtt"])
    received: list[str] = []

    async def main(broker: Broker) -> None:
        settings = broker_module.Broker("127.0.0.1", broker.port)
        delivery = Delivery(MqttSink(MqttSinkConfig(settings)), outbox, "mqtt")
        async with running(supervise(delivery), listen(broker, received)):
            await until(lambda: delivery.status.state == "up" and received == ["listens"])
            put(outbox, 1)
            put(outbox, 2, notify=False)
            await until(lambda: received[1:] == ["m1/1/0", "m1/2/0"] and delivery.status.counts["sent"] == 2)
            assert await retained(broker, "cgsa/m1/case") | {"faults": ()} == {
                "id": "m1/2/0",
                "machine": "m1",
                "number": 2,
                "state": "raised",
                "severity": "high",
                "fault": "wear",
                "faults": (),
                "opened": 1.0,
                "changed": 2.0,
                "closed": None,
                "raised": 1,
                "notified": 0,
                "acknowledged_by": None,
                "shelved_until": None,
            }
            broker.stop(signal.SIGKILL)
            # Nothing was to be sent, and still it is missed.
            await until(lambda: delivery.status.state == "down")
            put(outbox, 3)
            broker.start()
            await until(lambda: received.count("listens") == 2 and delivery.status.state == "up")
            put(outbox, 4)
            await until(lambda: received[-1] == "m1/4/0" and delivery.status.counts["sent"] == 4)
            assert delivery.status.counts == {"sent": 4, "dropped": 0, "failed": 1, "disconnects": 1, "reconnects": 1}
            assert (await retained(broker, "cgsa/m1/case"))["number"] == 4

    with Broker(tmp_path / "broker") as broker:
        asyncio.run(main(broker))
    outbox.close()


@pytest.mark.parametrize("topic", ["alarms", "a/{machine}/#", "+/{machine}"])
def test_topics_name_the_machine(topic: str) -> None:
    with pytest.raises(ConfigError, match=r"expected one with \{machine\}"):
        MqttSinkConfig(changes=topic)
    with pytest.raises(ConfigError, match=r"expected one with \{machine\}"):
        MqttSinkConfig(case=topic)
