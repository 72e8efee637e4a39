"""What a route or page needs of the service that it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.requests import HTTPConnection

from cgsa.live.plant import Plant
from cgsa.live.worker import Worker
from cgsa.service.auth import Authenticator, Person, origin_of
from cgsa.service.buckets import TokenBuckets
from cgsa.service.dashboard.plant_view import PlantView
from cgsa.service.errors import RefusedError, message_of, status_of
from cgsa.service.feed import EventFeed
from cgsa.service.limits import RequestLimits

MAX_SIMILAR_REFUSALS = 5
"""Similar refusals of one client that are audited at once; after that, one per minute."""
MAX_RESULT = 500
"""Characters of a reason that are audited."""


@dataclass(frozen=True, eq=False)
class ServiceContext:
    """The parts of one service."""

    plant: Plant
    authenticator: Authenticator
    feed: EventFeed
    limits: RequestLimits
    requests: TokenBuckets
    """How often each person may send a request."""
    view: PlantView
    """What all pages show."""
    refusals: TokenBuckets = field(default_factory=lambda: TokenBuckets(1 / 60, MAX_SIMILAR_REFUSALS))
    """How often similar refusals are audited."""

    @classmethod
    def of(cls, plant: Plant, authenticator: Authenticator, limits: RequestLimits) -> ServiceContext:
        """Return the context of a service over a plant."""
        requests = TokenBuckets(limits.person_rate, limits.person_burst)
        return cls(plant, authenticator, EventFeed(plant), limits, requests, PlantView(plant))

    def worker(self, machine: str) -> Worker:
        """Return the worker of a machine, or refuse the request."""
        worker = self.plant.workers.get(machine)
        if worker is None:
            # The names of the others are of no use to whoever mistyped one of hundreds.
            raise RefusedError(404, f"no machine {machine[:64]!r} is monitored here")
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
        """Record who did what, or why it was refused; a client that keeps trying must not fill the disk."""
        result, recorded = "ok", dict(details or {})
        if error is not None:
            status = status_of(error)
            key = (person.name if person else None, origin_of(connection), what, status)
            if not self.refusals.draw(key):
                return
            if self.refusals.empty(key):
                recorded["more"] = "further ones within a minute are not written down"
            result = f"{status} {message_of(error)}"[:MAX_RESULT]
        machine = None if machine is None else machine[:64]
        self.authenticator.audit(person, what.replace("_", " "), machine, connection, result, **recorded)


def context_of(connection: HTTPConnection) -> ServiceContext:
    """Return the context of the service that a request came to."""
    context = connection.app.state.context
    if not isinstance(context, ServiceContext):
        raise TypeError(f"app.state.context is {context!r}; expected a ServiceContext")
    return context
