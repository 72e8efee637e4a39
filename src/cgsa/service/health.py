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
from cgsa.service.api.routing import Context, needs, role_router
from cgsa.service.auth import NotAllowedError
from cgsa.service.context import ServiceContext
from cgsa.service.schemas import Health, MachineReadiness, Readiness

router = APIRouter(tags=["health"])


@router.get("/health")
async def show_health() -> Health:
    """Report that the process is alive; no token is needed."""
    return Health(version=__version__)


@router.get("/ready", responses={503: {"model": Readiness, "description": "Not ready"}})
def show_ready(request: Request, context: Context, response: Response) -> Readiness:
    """Report whether all machines are monitored and the store is writable.

    Without a token, the answer has reasons but no names. With one, it has the state of each machine.
    """
    found = [worker.status() for worker in context.plant.workers.values()]
    reasons = tuple(not_ready(context, found))
    response.status_code = 503 if reasons else 200
    named = found if _may_see_names(context, request) else []
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


def _may_see_names(context: ServiceContext, request: Request) -> bool:
    try:
        return context.authenticator.person_of(request) is not None
    except NotAllowedError:
        return False


def metrics_router(registry: CollectorRegistry) -> APIRouter:
    """Return the route of a registry's metrics."""
    router = role_router()

    @router.get("/metrics", tags=["health"], response_class=Response, **needs("viewer"))
    def show_metrics() -> Response:
        """Return all metrics in Prometheus format."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return router
