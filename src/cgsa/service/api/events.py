"""Events as they happen."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from cgsa.service.api.guarded import TheParts, guarded_router, needs
from cgsa.service.api.parameters import OfMachine
from cgsa.service.errors import RefusedError
from cgsa.service.stream import EventStream

RETRY_SECONDS = 10.0

router = guarded_router()


@router.get(
    "/events",
    tags=["events"],
    response_class=Response,
    **needs(
        "viewer",
        404,
        503,
        answers={
            200: {"description": "Server-sent events", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
        },
    ),
)
async def stream_events(
    request: Request,
    parts: TheParts,
    machine: OfMachine = None,
    last_event_id: Annotated[str | None, Header(max_length=64)] = None,
) -> Response:
    """Tell of events of one machine or of all, from now on or from behind ``Last-Event-ID`` on.

    Each event comes at least once: after a restart of the service some of the
    last ones may come again. ``machine``, ``position`` and ``index`` tell them apart.
    """
    if machine is not None:
        parts.worker(machine)
    if parts.feed.listeners >= parts.limits.streams:
        raise RefusedError(503, f"{parts.feed.listeners} listen already", retry_after=RETRY_SECONDS)

    async def allowed() -> bool:
        person = await run_in_threadpool(parts.guard.person_of, request)
        return person is not None

    return EventStream(parts.feed, machine=machine, last=last_event_id, allowed=allowed)
