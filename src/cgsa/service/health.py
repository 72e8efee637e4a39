"""Endpoints for monitoring the service itself: health, readiness and metrics."""

from __future__ import annotations

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.responses import Response

from cgsa import __version__
from cgsa.service.api.routing import Context, CurrentPerson, needs, role_router
from cgsa.service.context import ServiceContext
from cgsa.service.metrics import MachineMetrics
from cgsa.service.schemas import Health, Readiness

router = APIRouter(tags=["health"])


@router.get("/health")
async def show_health() -> Health:
    """Report that the process is alive; no token is needed."""
    return Health(version=__version__)


@router.get("/ready", responses={503: {"model": Readiness, "description": "Not ready"}})
def show_ready(context: Context, response: Response) -> Readiness:
    """Report whether all machines are monitored and the store is writable; needs no token and reveals no names."""
    reasons = tuple(not_ready(context))
    response.status_code = 503 if reasons else 200
    return Readiness(ready=not reasons, reasons=reasons)


def not_ready(context: ServiceContext) -> list[str]:
    """Return why the service is not ready."""
    found = [worker.status() for worker in context.plant.workers.values()]
    behind = sum(status.learning == "catching up" for status in found)
    failing = sum(status.problem is not None for status in found)
    reasons = []
    if behind:
        reasons.append(f"{behind} of {len(found)} machines are still catching up with data from before the start")
    if failing:
        reasons.append(f"{failing} of {len(found)} machines cannot save their states")
    if context.plant.store.problem is not None:
        reasons.append("the store cannot be written")
    return reasons


def metrics_router(registry: CollectorRegistry) -> APIRouter:
    """Return the route of a registry's metrics."""
    router = role_router()

    @router.get("/metrics", tags=["health"], response_class=Response, **needs("viewer", scope="listed"))
    def show_metrics(person: CurrentPerson) -> Response:
        """Return all metrics in Prometheus format; a token for some machines gets theirs alone."""
        found = registry if not person.machines else MachineMetrics(registry, person)
        return Response(generate_latest(found), media_type=CONTENT_TYPE_LATEST)

    return router
