"""All sinks of a service."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
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


def _create_sinks(configs: Sequence[Mapping[str, object]]) -> dict[str, Sink]:
    """Return sinks by their names."""
    found: dict[str, Sink] = {}
    for table in configs:
        name, cls, config = bind_link(SINKS, table)
        if name in found:
            raise ConfigError(f"sink {name}: there are two of this name; expected different names")
        found[name] = cls(config)
    return found


def _checked(escalation: EscalationConfig | None, sinks: Mapping[str, Sink]) -> EscalationConfig:
    """Return an escalation, none by default, all of whose steps are sinks."""
    found = escalation or EscalationConfig()
    unknown = [name for name in found.steps if name not in sinks]
    if unknown:
        raise ConfigError(f"escalation.steps: no sink {', '.join(unknown)}; there are {', '.join(sinks) or 'none'}")
    return found


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
        self._retry, self._clock = retry, clock
        found = _create_sinks(configs)
        self.escalation = _checked(escalation, found)
        self.calendar = MaintenanceCalendar(plant.store, clock)
        self.outbox = Outbox(folder, tuple(found), clock=clock)
        self.log = DeliveryLog(plant.store, tuple(found), clock=clock)
        self.deliveries = self._deliveries(found)
        self.notifier = Notifier(
            plant,
            self.outbox,
            self.log,
            deliveries=self.deliveries,
            escalation=self.escalation,
            calendar=self.calendar,
            clock=clock,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._exchanged = asyncio.Event()
        """Set when there are other deliveries than those that run."""
        self._unsubscribe = plant.subscribe(self._receive)

    def __iter__(self) -> Iterator[Delivery]:
        return iter(self.deliveries)

    async def run(self) -> None:
        """Deliver notifications and reconnect after every failure; never returns by itself."""
        self._loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._check())
            while True:
                self._exchanged.clear()
                tasks = [asyncio.create_task(supervise(delivery)) for delivery in self.deliveries]
                try:
                    await self._exchanged.wait()
                finally:
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)

    def exchange(self, configs: Sequence[Mapping[str, object]], escalation: EscalationConfig | None = None) -> None:
        """Send to the sinks of other settings from now on, or raise an error and change nothing.

        For another thread than that of the event loop. A sink that keeps its name gets what waits for it; a new one
        gets no earlier notifications.
        """
        found = _create_sinks(configs)
        self.escalation = _checked(escalation, found)
        self.outbox.set_readers(tuple(found))
        self.log.set_sinks(tuple(found))
        self.deliveries = self._deliveries(found)
        self.notifier.exchange(self.deliveries, self.escalation)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._exchanged.set)

    async def _check(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self.notifier.check)
            except Exception:  # whatever fails here must not end the deliveries
                _log.exception("escalations could not be checked")
            await asyncio.sleep(TICK_SECONDS)

    def _deliveries(self, sinks: Mapping[str, Sink]) -> tuple[Delivery, ...]:
        return tuple(
            Delivery(
                sink,
                self.outbox,
                name,
                retry=self._retry,
                log=self.log,
                escalated_only=name in self.escalation.steps[1:],
                clock=self._clock,
            )
            for name, sink in sinks.items()
        )

    def close(self) -> None:
        """Stop receiving alarms; the next run of the service sends what was not sent yet."""
        self._unsubscribe()
        self.outbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _receive(self, machine: str, position: int | None, events: tuple[Event, ...]) -> None:
        if position is None:
            # Whether such events are repeated is not known.
            return
        for index, event in enumerate(events):
            if isinstance(event, AlarmChange) and self.deliveries:
                self.notifier.receive(machine, position, index, event)
