"""Events as they happen."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from cgsa.service.api.parameters import MachineFilter
from cgsa.service.api.routing import Context, needs, role_router
from cgsa.service.errors import RefusedError
from cgsa.service.stream import EventStream

RETRY_SECONDS = 10.0

router = role_router()

_STREAM = {"description": "Server-sent events", "content": {"text/event-stream": {"schema": {"type": "string"}}}}


@router.get("/events", tags=["events"], response_class=Response, **needs("viewer", 404, 503, answers={200: _STREAM}))
async def stream_events(
    request: Request,
    context: Context,
    machine: MachineFilter = None,
    last_event_id: Annotated[str | None, Header(max_length=64)] = None,
) -> Response:
    """Stream the events of one machine or of all, from now on or from the one after ``Last-Event-ID``.

    Each event comes at least once: after a restart of the service some of the last ones may come again. ``machine``,
    ``position`` and ``index`` identify an event.
    """
    if machine is not None:
        context.worker(machine)
    if context.feed.listeners >= context.limits.streams:
        raise RefusedError(503, f"{context.feed.listeners} clients listen already", retry_after=RETRY_SECONDS)

    async def allowed() -> bool:
        return await run_in_threadpool(context.authenticator.person_of, request) is not None

    return EventStream(context.feed, machine=machine, last=last_event_id, allowed=allowed)
