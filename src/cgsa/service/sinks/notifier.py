"""Decides when notifications go out: at once, after a maintenance, or to the next sink of the escalation."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from cgsa.events import AlarmChange, Case
from cgsa.live.monitored import MonitoredPlant
from cgsa.service.links.link import Clock
from cgsa.service.maintenance import MaintenanceCalendar
from cgsa.service.sinks.delivery import Delivery
from cgsa.service.sinks.delivery_log import DeliveryLog, TrackedNotification
from cgsa.service.sinks.escalation import EscalationConfig, due_escalation
from cgsa.service.sinks.outbox import Notification, Outbox

TICK_SECONDS = 1.0
"""Interval at which escalations and ends of maintenance are checked."""

_log = logging.getLogger(__name__)


class Notifier:
    """Puts notifications into the outbox; usable from any thread."""

    def __init__(
        self,
        plant: MonitoredPlant,
        outbox: Outbox,
        log: DeliveryLog,
        *,
        deliveries: Sequence[Delivery],
        escalation: EscalationConfig,
        calendar: MaintenanceCalendar,
        clock: Clock = time.time,
    ) -> None:
        self._plant, self._outbox, self._log = plant, outbox, log
        self._deliveries = deliveries
        self._escalation, self._calendar, self._clock = escalation, calendar, clock
        self.escalated = 0
        """Notifications that were passed on to a further sink."""

    def exchange(self, deliveries: Sequence[Delivery], escalation: EscalationConfig) -> None:
        """Notify other sinks from now on."""
        self._deliveries, self._escalation = deliveries, escalation

    def receive(self, machine: str, position: int, index: int, event: AlarmChange) -> None:
        """Send the notification of an event to all sinks that want it, or hold it until a maintenance ends."""
        found = Notification.of_event(machine, position, index, event)
        if not event.notify:
            self._outbox.add(replace(found, held=self._calendar.until(machine) is not None))
            return
        if self._log.knows(found):
            # After a kill, a machine repeats what it did since its last state.
            return
        # Recorded first: the sink may confirm it as soon as it is in the outbox.
        sinks = [one.status.name for one in self._deliveries if one.wants(found)]
        held = self._calendar.until(machine) is not None
        self._log.ask(found, sinks, state="held" if held else "notifying")
        self._outbox.add(replace(found, held=held))

    def check(self) -> None:
        """Send what was held until now, and escalate what is due."""
        for tracked in self._log.held():
            if self._is_current(tracked.notification.machine):
                self._release(tracked)
        for tracked in self._log.newest():
            if self._is_current(tracked.notification.machine):
                self._escalate(tracked)

    def _is_current(self, machine: str) -> bool:
        """Return whether a machine is not under maintenance, and its case is known as it is now."""
        worker = self._plant.workers.get(machine)
        # What waits in the journal may be the acknowledgement.
        behind = worker is not None and worker.status().work in {"catching up", "retrying"}
        return not behind and self._calendar.until(machine) is None

    def _release(self, tracked: TrackedNotification) -> None:
        """Send a notification after a maintenance, if there is still something to notify about."""
        found = tracked.notification
        newest = max(
            one.notification.position for one in self._log.newest() if one.notification.machine == found.machine
        )
        case = self._case_of(found)
        sinks = [name for name, one in tracked.records.items() if one.state == "held"]
        if case is None or case.state != "raised" or case.shelved_until is not None or found.position < newest:
            for name in sinks:
                self._log.finish(found, name, "withdrawn")
            return
        since = datetime.fromtimestamp(case.opened, UTC)
        reason = f"active since {since:%Y-%m-%d %H:%M} UTC, during a maintenance that is over now"
        self._log.ask(found, sinks, reason)
        self._outbox.add(replace(found, reason=reason))

    def _escalate(self, tracked: TrackedNotification) -> None:
        found = tracked.notification
        case = self._case_of(found)
        if case is None:
            return
        due = due_escalation(self._escalation, tuple(tracked.records.values()), case, self._clock())
        if due is None:
            return
        _log.warning("%s: case %d escalates to %s: %s", found.machine, case.number, due.sink, due.reason)
        self.escalated += 1
        self._log.ask(found, [due.sink], due.reason)
        self._outbox.add(replace(found, sink=due.sink, reason=due.reason))

    def _case_of(self, notification: Notification) -> Case | None:
        """Return the case of a notification as it is now; None if it is over."""
        worker = self._plant.workers.get(notification.machine)
        case = None if worker is None else worker.status().case
        return case if case is not None and case.number == notification.event["case"]["number"] else None
