"""All sinks of a service."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from cgsa.errors import ConfigError
from cgsa.events import AlarmChange, Event
from cgsa.live.plant import Plant
from cgsa.registry import Registry
from cgsa.service.links.link import Clock, supervise
from cgsa.service.links.settings import bind_link
from cgsa.service.maintenance import MaintenanceCalendar
from cgsa.service.sinks.base import Sink
from cgsa.service.sinks.delivery import Delivery, RetryPolicy
from cgsa.service.sinks.delivery_log import DeliveryLog
from cgsa.service.sinks.escalation import EscalationConfig
from cgsa.service.sinks.notifier import TICK_SECONDS, Notifier
from cgsa.service.sinks.outbox import Outbox

_log = logging.getLogger(__name__)

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
        escalation: EscalationConfig | None = None,
        clock: Clock = time.time,
    ) -> None:
        self.escalation = escalation or EscalationConfig()
        found: dict[str, Sink] = {}
        for table in configs:
            name, cls, config = bind_link(SINKS, table)
            if name in found:
                raise ConfigError(f"sink {name}: there are two of this name; expected different names")
            found[name] = cls(config)
        unknown = [name for name in self.escalation.steps if name not in found]
        if unknown:
            known = ", ".join(found) or "none"
            raise ConfigError(f"escalation.steps: no sink {', '.join(unknown)}; there are {known}")
        self.calendar = MaintenanceCalendar(plant.store, clock)
        self.outbox = Outbox(folder, tuple(found), clock=clock)
        self.log = DeliveryLog(plant.store, tuple(found), clock=clock)
        self.deliveries = tuple(
            Delivery(
                sink,
                self.outbox,
                name,
                retry=retry,
                log=self.log,
                escalated_only=name in self.escalation.steps[1:],
                clock=clock,
            )
            for name, sink in found.items()
        )
        self.notifier = Notifier(
            plant,
            self.outbox,
            self.log,
            deliveries=self.deliveries,
            escalation=self.escalation,
            calendar=self.calendar,
            clock=clock,
        )
        self._unsubscribe = plant.subscribe(self._receive) if found else lambda: None

    async def run(self) -> None:
        """Deliver notifications and reconnect after every failure; never returns by itself."""
        async with asyncio.TaskGroup() as group:
            for delivery in self.deliveries:
                group.create_task(supervise(delivery))
            while True:
                try:
                    await asyncio.to_thread(self.notifier.check)
                except Exception:  # whatever fails here must not end the deliveries
                    _log.exception("escalations could not be checked")
                await asyncio.sleep(TICK_SECONDS)

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
                self.notifier.receive(machine, position, index, event)
