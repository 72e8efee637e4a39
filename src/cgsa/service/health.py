"""What watches over the service ask: is it alive, is it ready, and its figures."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.responses import Response

from cgsa import __version__
from cgsa.service.api.guarded import TheParts, guarded_router, needs
from cgsa.service.context import ServiceContext
from cgsa.service.schemas import Health, Ready

router = APIRouter(tags=["upkeep"])
_NOT_READY: dict[int | str, dict[str, Any]] = {503: {"model": Ready, "description": "Not ready"}}


@router.get("/health")
async def show_health() -> Health:
    """Say that the process is alive; no token is needed."""
    return Health(version=__version__)


@router.get("/ready", responses=_NOT_READY)
def show_ready(parts: TheParts, response: Response) -> Ready:
    """Say whether all machines are watched and the store can be written; no token is needed, and no names are told."""
    reasons = tuple(not_ready(parts))
    response.status_code = 503 if reasons else 200
    return Ready(ready=not reasons, reasons=reasons)


def not_ready(parts: ServiceContext) -> list[str]:
    """Return what keeps the service from being ready."""
    found = [worker.status() for worker in parts.plant.workers.values()]
    behind = sum(status.learning == "catching up" for status in found)
    troubled = sum(status.problem is not None for status in found)
    reasons = []
    if behind:
        reasons.append(f"{behind} of {len(found)} machines still catch up with what came before the start")
    if troubled:
        reasons.append(f"{troubled} of {len(found)} machines cannot save their states")
    if parts.plant.store.problem is not None:
        reasons.append("the store cannot be written")
    return reasons


def metrics_router(registry: CollectorRegistry) -> APIRouter:
    """Return the route that tells the figures of a registry."""
    guarded = guarded_router()

    @guarded.get("/metrics", tags=["upkeep"], response_class=Response, **needs("viewer"))
    def show_metrics() -> Response:
        """Return all figures in the form of Prometheus."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return guarded
