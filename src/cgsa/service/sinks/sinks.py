"""All who are told of alarms."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from cgsa.errors import ConfigError
from cgsa.events import AlarmChange, Event
from cgsa.live.plant import Plant
from cgsa.registry import Registry
from cgsa.service.links.link import Status, supervise
from cgsa.service.sinks.base import Sink
from cgsa.service.sinks.delivery import Delivery, RetryPolicy
from cgsa.service.sinks.outbox import Outbox
from cgsa.service.sources import described

SINKS: Registry[type[Sink]] = Registry(
    "sink",
    "cgsa.sinks",
    {"mqtt": "cgsa.service.sinks.mqtt:MqttSink", "webhook": "cgsa.service.sinks.webhook:WebhookSink"},
)


class AlarmSinks:
    """Hears of alarms and tells everybody who wants to know; a context whose end closes it.

    Made before the first machine is added, it misses nothing: a machine that
    goes on after a kill tells at once of what it may not have told before.

    Parameters
    ----------
    plant
        Whose alarms.
    folder
        Of the outbox.
    configs
        A table of settings a sink: its ``kind``, a ``name`` where there are several of a kind, and the settings of
        its ``Config``.
    patience
        When a letter to a receiver that is not there is given up.
    """

    def __init__(
        self,
        plant: Plant,
        folder: str | Path,
        configs: Sequence[Mapping[str, object]],
        *,
        patience: RetryPolicy | None = None,
    ) -> None:
        found: dict[str, Sink] = {}
        for table in configs:
            name, cls, config = described(SINKS, table)
            if name in found:
                raise ConfigError(f"sink {name}: there are two of this name; give them names of their own")
            found[name] = cls(config)
        self.outbox = Outbox(folder, tuple(found))
        self.deliveries = tuple(Delivery(sink, self.outbox, name, patience=patience) for name, sink in found.items())
        self._deafen = plant.subscribe(self._hear) if found else lambda: None

    @property
    def statuses(self) -> tuple[Status, ...]:
        """How each of them stands."""
        return tuple(delivery.status for delivery in self.deliveries)

    async def run(self) -> None:
        """Tell them, through every failure; never returns by itself."""
        async with asyncio.TaskGroup() as group:
            for delivery in self.deliveries:
                group.create_task(supervise(delivery))
            await asyncio.Event().wait()

    def close(self) -> None:
        """Hear no more; what was not sent yet is sent by whoever opens the outbox next."""
        self._deafen()
        self.outbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _hear(self, machine: str, position: int, events: tuple[Event, ...]) -> None:
        for index, event in enumerate(events):
            if isinstance(event, AlarmChange):
                self.outbox.put(machine, position, index, event)
