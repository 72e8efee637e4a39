"""Commands of people to the watch of a machine: the one way of the API and of the pages.

Here is who may send which command, that a command about a case names the case that the person saw, how long to wait
for the result, and what the audit says of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from cgsa.errors import CgsaError, DataError, is_environmental
from cgsa.live.commands import Command, Name
from cgsa.service.context import ServiceContext
from cgsa.service.errors import RefusedError
from cgsa.service.rights import Person, Role

COMMAND_ROLES: Mapping[Name, Role] = {
    "acknowledge": "operator",
    "shelve": "operator",
    "unshelve": "operator",
    "close": "operator",
    "comment": "operator",
    "label": "operator",
    "freeze": "operator",
    "thaw": "operator",
    "confirm_healthy": "operator",
    "mark_faulty": "operator",
    "commission": "operator",
    "readmit": "operator",
    "take_reference": "operator",
    "withdraw_reference": "operator",
    "reset": "admin",
    "roll_back": "admin",
}
"""Role needed for each command; all others are the service's own."""
COMMAND_SECONDS = 5.0
"""How long to wait for a command to be carried out; it is carried out in any case."""


async def send_command(
    context: ServiceContext,
    person: Person | None,
    machine: str,
    name: Name,
    text: str = "",
    *,
    case: int | None = None,
    **details: object,
) -> bool:
    """Send a command if the person may; return whether it has been carried out already.

    ``case`` is the number of the case that the person saw. It must be the newest of the machine, now and when the
    command is carried out.
    """
    allowed = context.authenticator.require(person, COMMAND_ROLES[name])
    worker = context.worker(machine, allowed)
    if case is not None:
        newest = worker.status().case
        if newest is None or case > newest.number:
            raise RefusedError(404, f"{machine} has no case {case}")
        if case < newest.number:
            raise RefusedError(409, f"case {case} of {machine} is over; its newest is {newest.number}")
        details["case"] = case
    try:
        future = await run_in_threadpool(worker.command, Command(name, allowed.name, text, details))
        pending = asyncio.wrap_future(future)
        finished, _ = await asyncio.wait({pending}, timeout=COMMAND_SECONDS)
        if finished and pending.cancelled():
            raise RefusedError(503, "the service is shutting down; it carries out the command after its next start")
        if finished:
            pending.result()
    except DataError as error:
        if is_environmental(error):
            raise
        raise RefusedError(409, str(error)) from error
    return bool(finished)


async def send_audited(
    context: ServiceContext,
    connection: HTTPConnection,
    machine: str,
    name: Name,
    text: str = "",
    *,
    case: int | None = None,
    **details: object,
) -> bool:
    """Send a command for whoever holds a connection, and audit it; return whether it has been carried out already.

    Routes of the API are audited one and all; this is for pages, whose requests last as long as the page is open.
    """
    person = await run_in_threadpool(context.authenticator.person_of, connection)
    audited = audit_details(text, case, details)
    try:
        done = await send_command(context, person, machine, name, text, case=case, **details)
    except CgsaError as error:
        context.audit(connection, person, name, machine, error=error, details=audited)
        raise
    context.audit(connection, person, name, machine, details=audited)
    return done


def audit_details(text: str, case: int | None, details: Mapping[str, object]) -> dict[str, object]:
    """Return what the audit records of a command besides its name."""
    return {**details, **({"text": text} if text else {}), **({} if case is None else {"case": case})}
