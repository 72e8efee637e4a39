"""Maintenance windows, and the receivers of alarms."""

from __future__ import annotations

import time
from typing import Annotated, TypeAlias

from fastapi import Path
from starlette.requests import Request

from cgsa.errors import DataError, is_environmental
from cgsa.live.store import MaintenanceWindow
from cgsa.service.alarm_schemas import MaintenanceForm, MaintenanceInfo, MaintenanceList, SinkInfo, Sinks
from cgsa.service.api.routing import Context, CurrentPerson, needs, role_router
from cgsa.service.errors import RefusedError
from cgsa.service.maintenance import occurrence, visible

router = role_router()

WindowNumber: TypeAlias = Annotated[int, Path(ge=1, lt=2**31)]


@router.get("/maintenance", tags=["alarms"], **needs("viewer", scope="listed"))
def list_maintenance(context: Context, person: CurrentPerson) -> MaintenanceList:
    """Return the maintenance windows that concern machines of the token, the newest first."""
    machines = context.plant.workers
    shown = [one for one in context.calendar.windows if visible(one, person, machines)]
    return MaintenanceList(maintenance=tuple(map(_info, shown)))


@router.post("/maintenance", tags=["alarms"], status_code=201, **needs("operator", 409, scope="body"))
def add_maintenance(
    wanted: MaintenanceForm, request: Request, context: Context, person: CurrentPerson
) -> MaintenanceInfo:
    """Add a maintenance window: until its end, alarms of these machines are recorded and notify nobody.

    At the end, those that are still active and not acknowledged are notified.
    """
    request.state.audit_details = wanted.model_dump(exclude_defaults=True)
    begin = time.time() if wanted.begin is None else wanted.begin
    try:
        window = context.calendar.add(
            person,
            tuple(wanted.machines),
            begin,
            wanted.end,
            reason=wanted.reason,
            repeats=wanted.repeats,
            zone=wanted.zone,
        )
    except DataError as error:
        if is_environmental(error):
            raise
        raise RefusedError(409, str(error)) from error
    return _info(window)


@router.post("/maintenance/{number}/end", tags=["alarms"], **needs("operator", 404, 409, scope="body"))
def end_maintenance(number: WindowNumber, context: Context, person: CurrentPerson) -> MaintenanceInfo:
    """End a maintenance window now and for good; one that repeats does not come again."""
    found = next((one for one in context.calendar.windows if one.number == number), None)
    if found is None or not all(map(person.covers_pattern, found.machines)):
        raise RefusedError(404, f"there is no maintenance {number} of machines that the token is valid for")
    if found.ended is not None:
        raise RefusedError(409, f"maintenance {number} was ended already, by {found.ended_by}")
    return _info(context.calendar.end(number, person))


@router.get("/sinks", tags=["alarms"], **needs("viewer", scope="all"))
def list_sinks(context: Context) -> Sinks:
    """Return the receivers of alarms, in the order of the configuration."""
    sinks = context.sinks
    if sinks is None:
        return Sinks(sinks=())
    steps = sinks.escalation.steps
    waiting = sinks.log.undelivered()
    return Sinks(
        sinks=tuple(
            SinkInfo.model_validate(
                {
                    **vars(status),
                    "waiting": waiting[status.name, "notifying"],
                    "step": steps.index(status.name) + 1 if status.name in steps else None,
                }
            )
            for status in (delivery.status for delivery in sinks.deliveries)
        )
    )


def _info(window: MaintenanceWindow) -> MaintenanceInfo:
    now = time.time()
    when = occurrence(window, now)
    following = (
        {"next_begin": None, "next_end": None} if when is None else {"next_begin": when.begin, "next_end": when.end}
    )
    return MaintenanceInfo.model_validate({**vars(window), **following, "now": when is not None and when.begin <= now})
