"""Endpoints for monitoring the service itself: health, readiness and metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from cgsa import __version__
from cgsa.live.worker_status import WorkerStatus
from cgsa.service.api.routing import Context, CurrentPerson, needs, role_router
from cgsa.service.context import ServiceContext
from cgsa.service.metrics import MachineMetrics
from cgsa.service.rights import NotAllowedError, Person
from cgsa.service.schemas import Health, MachineReadiness, Readiness

router = APIRouter(tags=["health"])


@router.get("/health")
async def show_health() -> Health:
    """Report that the process is alive; no token is needed."""
    return Health(version=__version__)


@router.get("/ready", responses={503: {"model": Readiness, "description": "Not ready"}})
def show_ready(request: Request, context: Context, response: Response) -> Readiness:
    """Report whether all machines are monitored and the store is writable.

    Without a token, the answer has reasons but no names. With that of a viewer, it has the state of each machine that
    the token is valid for.
    """
    found = [worker.status() for worker in context.plant.workers.values()]
    reasons = tuple(not_ready(context, found))
    response.status_code = 503 if reasons else 200
    viewer = _viewer(context, request)
    named = [] if viewer is None else [status for status in found if viewer.covers(status.machine)]
    return Readiness(ready=not reasons, reasons=reasons, machines=tuple(map(MachineReadiness.model_validate, named)))


def not_ready(context: ServiceContext, machines: Sequence[WorkerStatus]) -> list[str]:
    """Return why the service is not ready."""
    behind = sum(status.work == "catching up" for status in machines)
    stopped = sum(status.work == "stopped" for status in machines)
    failing = Counter(
        f"cannot {one.task} ({one.cause})" for status in machines if status.work != "stopped" for one in status.problems
    )
    reasons = []
    if stopped:
        reasons.append(f"{stopped} of {len(machines)} machines are stopped by a fault of the program; see the log")
    reasons += [f"{count} of {len(machines)} machines {what}" for what, count in failing.items()]
    if behind:
        reasons.append(f"{behind} of {len(machines)} machines are still catching up with data from before")
    if context.plant.store.problem is not None:
        reasons.append("the store cannot be written")
    reasons += [f"the service cannot {one.task} ({one.cause})" for one in context.plant.problems]
    return reasons


def _viewer(context: ServiceContext, request: Request) -> Person | None:
    """Return who asks, if they may see machines."""
    try:
        person = context.authenticator.person_of(request)
    except NotAllowedError:
        return None
    return person if person is not None and person.may("viewer") else None


def metrics_router(registry: CollectorRegistry) -> APIRouter:
    """Return the route of a registry's metrics."""
    router = role_router()

    @router.get("/metrics", tags=["health"], response_class=Response, **needs("viewer", scope="listed"))
    def show_metrics(person: CurrentPerson) -> Response:
        """Return all metrics in Prometheus format; a token for some machines gets theirs alone."""
        found = registry if not person.machines else MachineMetrics(registry, person)
        return Response(generate_latest(found), media_type=CONTENT_TYPE_LATEST)

    return router
