"""What a route or page needs of the service that it belongs to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection

from cgsa.live.monitored import MonitoredMachine, MonitoredPlant
from cgsa.service.auth import Authenticator
from cgsa.service.dashboard.plant_view import PlantView
from cgsa.service.errors import RefusedError, message_of, status_of
from cgsa.service.feed import EventFeed
from cgsa.service.limits import RequestLimits
from cgsa.service.maintenance import MaintenanceCalendar
from cgsa.service.reads import ReadPool
from cgsa.service.refusal_log import RefusalLog
from cgsa.service.rights import Person
from cgsa.service.sinks.alarm_sinks import AlarmSinks
from cgsa.service.traffic import TrafficCounts
from cgsa.service.trends.recorder import TrendRecorder

if TYPE_CHECKING:
    from cgsa.service.oidc.client import OidcClient

MAX_RESULT = 500
"""Characters of a reason that are audited."""


@dataclass(frozen=True, eq=False)
class ServiceContext:
    """The parts of one service."""

    plant: MonitoredPlant
    authenticator: Authenticator
    feed: EventFeed
    limits: RequestLimits
    view: PlantView
    """What all pages show."""
    reads: ReadPool
    """Places for reads of the store."""
    refusals: RefusalLog
    """Writes refused requests into the audit."""
    calendar: MaintenanceCalendar
    """When machines are under maintenance."""
    trends: TrendRecorder
    """Records how the machines change."""
    sinks: AlarmSinks | None = None
    """None if nobody is notified."""
    oidc: OidcClient | None = None
    """Logs people in with an identity provider; None if tokens are the only way in."""
    traffic: TrafficCounts = field(default_factory=TrafficCounts)
    """Connections and requests beyond the limits."""
    decoding: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a block is decoded from JSON."""

    @classmethod
    def of(
        cls,
        plant: MonitoredPlant,
        authenticator: Authenticator,
        limits: RequestLimits,
        *,
        sinks: AlarmSinks | None = None,
        oidc: OidcClient | None = None,
    ) -> ServiceContext:
        """Return the context of a service over a plant."""
        return cls(
            plant,
            authenticator,
            EventFeed(plant, limits),
            limits,
            PlantView(plant),
            ReadPool(limits),
            RefusalLog(authenticator),
            MaintenanceCalendar(plant.store) if sinks is None else sinks.calendar,
            TrendRecorder(plant),
            sinks,
            oidc,
        )

    @property
    def escalation_steps(self) -> tuple[str, ...]:
        """Names of the sinks that are notified one after the other."""
        return () if self.sinks is None else self.sinks.escalation.steps

    def worker(self, machine: str, person: Person) -> MonitoredMachine:
        """Return the worker of a machine that a person's token is valid for, or refuse the request."""
        worker = self.plant.workers.get(machine)
        if worker is None or not person.covers(machine):
            raise unknown_machine(machine)
        return worker

    def audit(
        self,
        connection: HTTPConnection,
        person: Person | None,
        what: str,
        machine: str | None = None,
        *,
        error: Exception | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        """Record who did what, or why it was refused."""
        what, machine = what.replace("_", " "), None if machine is None else machine[:64]
        if error is None:
            self.authenticator.audit(person, what, machine, connection, "ok", **(details or {}))
            return
        status, reason = status_of(error), message_of(error)[:MAX_RESULT]
        self.refusals.record(person, what, status, reason, connection, machine=machine, details=details)


def unknown_machine(machine: str) -> RefusedError:
    """Return the answer about a machine that does not exist, or that a token is not valid for."""
    # The names of the others are of no use to whoever mistyped one of hundreds.
    return RefusedError(404, f"no machine {machine[:64]!r} is monitored here")


def context_of(connection: HTTPConnection) -> ServiceContext:
    """Return the context of the service that a request came to."""
    context = connection.app.state.context
    if not isinstance(context, ServiceContext):
        raise TypeError(f"app.state.context is {context!r}; expected a ServiceContext")
    return context
