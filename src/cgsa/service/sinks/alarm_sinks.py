"""All sinks of a service."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from cgsa.errors import ConfigError
from cgsa.events import AlarmChange, Event
from cgsa.live.plant import Plant
from cgsa.registry import Registry
from cgsa.service.links.link import supervise
from cgsa.service.links.settings import bind_link
from cgsa.service.sinks.base import Sink
from cgsa.service.sinks.delivery import Delivery, RetryPolicy
from cgsa.service.sinks.outbox import Outbox

SINKS: Registry[type[Sink]] = Registry(
    "sink",
    "cgsa.sinks",
    {
        "email": "cgsa.service.sinks.email:EmailSink",
        "mqtt": "cgsa.service.sinks.mqtt:MqttSink",
        "webhook": "cgsa.service.sinks.webhook:WebhookSink",
    },
)


class AlarmSinks:
    """Sends alarms to all sinks; a context that closes itself at its end.

    Create it before the first machine is added: after a kill, a machine at once repeats events that may not have been
    delivered.

    Parameters
    ----------
    configs
        A table of settings per sink: its ``kind``, a ``name`` if there are several of a kind, and the settings of its
        ``Config``.
    """

    def __init__(
        self,
        plant: Plant,
        folder: str | Path,
        configs: Sequence[Mapping[str, object]],
        *,
        retry: RetryPolicy | None = None,
    ) -> None:
        found: dict[str, Sink] = {}
        for table in configs:
            name, cls, config = bind_link(SINKS, table)
            if name in found:
                raise ConfigError(f"sink {name}: there are two of this name; expected different names")
            found[name] = cls(config)
        self.outbox = Outbox(folder, tuple(found))
        self.deliveries = tuple(Delivery(sink, self.outbox, name, retry=retry) for name, sink in found.items())
        self._unsubscribe = plant.subscribe(self._receive) if found else lambda: None

    async def run(self) -> None:
        """Deliver notifications and reconnect after every failure; never returns by itself."""
        async with asyncio.TaskGroup() as group:
            for delivery in self.deliveries:
                group.create_task(supervise(delivery))
            await asyncio.Event().wait()

    def close(self) -> None:
        """Stop receiving alarms; the next run of the service sends what was not sent yet."""
        self._unsubscribe()
        self.outbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _receive(self, machine: str, position: int, events: tuple[Event, ...]) -> None:
        for index, event in enumerate(events):
            if isinstance(event, AlarmChange):
                self.outbox.put(machine, position, index, event)
