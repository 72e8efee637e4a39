"""Events as they happen."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Header, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from cgsa.service.api.parameters import MachineFilter
from cgsa.service.api.routing import Context, CurrentPerson, needs, role_router
from cgsa.service.stream import EventStream

router = role_router()

_STREAM = {"description": "Server-sent events", "content": {"text/event-stream": {"schema": {"type": "string"}}}}


@router.get(
    "/events", tags=["events"], response_class=Response, **needs("viewer", 404, scope="listed", answers={200: _STREAM})
)
async def stream_events(
    request: Request,
    context: Context,
    person: CurrentPerson,
    machine: MachineFilter = None,
    last_event_id: Annotated[str | None, Header(max_length=64)] = None,
) -> Response:
    """Stream the events of one machine or of all, from now on or from the one after ``Last-Event-ID``.

    Each event comes at least once: after a restart of the service some of the last ones may come again. ``machine``,
    ``position`` and ``index`` identify an event.
    """
    if machine is not None:
        context.worker(machine, person)

    async def allowed() -> bool:
        return await run_in_threadpool(context.authenticator.person_of, request) is not None

    return EventStream(
        context.feed,
        owner=person.name,
        machine=machine,
        covers=person.covers,
        last=last_event_id,
        allowed=allowed,
        reading=partial(context.reads.slot, person.name),
    )
