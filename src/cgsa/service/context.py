"""What the routes work with."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.requests import HTTPConnection

from cgsa.live.plant import Plant
from cgsa.live.worker import Worker
from cgsa.service.auth import Authenticator
from cgsa.service.buckets import TokenBuckets
from cgsa.service.errors import RefusedError
from cgsa.service.feed import EventFeed
from cgsa.service.limits import RequestLimits

MOST_ALIKE = 5
"""Refusals of one kind to one client that are written down at once; then one a minute is."""


@dataclass(frozen=True, eq=False)
class ServiceContext:
    """The parts of one service."""

    plant: Plant
    guard: Authenticator
    feed: EventFeed
    limits: RequestLimits
    people: TokenBuckets
    """How often each may ask."""
    refusals: TokenBuckets = field(default_factory=lambda: TokenBuckets(1 / 60, MOST_ALIKE))
    """How many refusals of one kind are written down."""

    @classmethod
    def of(cls, plant: Plant, guard: Authenticator, limits: RequestLimits) -> ServiceContext:
        """Return the parts of a service over a plant."""
        return cls(plant, guard, EventFeed(plant), limits, TokenBuckets(limits.person_rate, limits.person_burst))

    def worker(self, machine: str) -> Worker:
        """Return the watch of a machine, or say that there is none."""
        worker = self.plant.workers.get(machine)
        if worker is None:
            # The names of the others are of no use to whoever mistyped one of hundreds.
            raise RefusedError(404, f"no machine {machine[:64]!r} is watched here")
        return worker


def context_of(connection: HTTPConnection) -> ServiceContext:
    """Return the parts of the service that a request came to."""
    parts = connection.app.state.parts
    if not isinstance(parts, ServiceContext):
        raise TypeError(f"app.state.parts is {parts!r}; expected Parts")
    return parts
