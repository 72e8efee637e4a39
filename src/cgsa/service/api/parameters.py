"""Parameters that many routes share: a machine, a case, a selection of rows; and how routes send commands."""

from __future__ import annotations

import math
from typing import Annotated, Any, TypeAlias

from fastapi import Depends, Path, Query, Response
from starlette.requests import Request

from cgsa.live.commands import Name
from cgsa.live.intake.block import MAX_NAME, MAX_TIME
from cgsa.live.monitored import MonitoredMachine
from cgsa.live.store import MAX_PAGE, RowSelection
from cgsa.service.api.routing import Context, CurrentPerson, needs
from cgsa.service.commands import COMMAND_ROLES, audit_details, send_command
from cgsa.service.context import context_of
from cgsa.service.schemas import MACHINE, CommandResult

CURSOR = r"^-?[0-9]{1,17}(\.[0-9]{1,17})?(e[+-]?[0-9]{1,2})?,[0-9]{1,18}$"
"""A time and the number of a row, bounded to what the database can hold."""

MachineName: TypeAlias = Annotated[str, Path(max_length=MAX_NAME, pattern=MACHINE)]
MachineFilter: TypeAlias = Annotated[str | None, Query(max_length=MAX_NAME, pattern=MACHINE)]
CaseNumber: TypeAlias = Annotated[int, Path(ge=1, lt=2**31)]
StateNumber: TypeAlias = Annotated[int, Path(ge=1, lt=2**31)]
TimeBound: TypeAlias = Annotated[float | None, Query(ge=0, le=MAX_TIME, allow_inf_nan=False)]


def _selection(
    person: CurrentPerson,
    begin: TimeBound = None,
    end: TimeBound = None,
    after: Annotated[str | None, Query(max_length=64, pattern=CURSOR)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
    *,
    newest_first: bool = True,
) -> RowSelection:
    """Return which rows of a table to read: those from ``begin`` on and before ``end``, one page at a time.

    A token for some machines reads the rows of these machines.
    """
    return RowSelection(
        begin=-math.inf if begin is None else begin,
        end=math.inf if end is None else end,
        after=after,
        limit=limit,
        newest_first=newest_first,
        machines=person.machines,
    )


Rows: TypeAlias = Annotated[RowSelection, Depends(_selection)]


async def _worker(machine: MachineName, context: Context, person: CurrentPerson) -> MonitoredMachine:
    return context.worker(machine, person)


MachineWorker: TypeAlias = Annotated[MonitoredMachine, Depends(_worker)]
"""The worker of the machine in the path."""


def command_settings(name: Name) -> dict[str, Any]:
    """Return the settings of a route that sends a command."""
    later = {"model": CommandResult, "description": "In the journal; the command is carried out in its turn"}
    return needs(COMMAND_ROLES[name], 404, 409, scope="path", answers={202: later})


class CommandSender:
    """Sends the commands of one request."""

    def __init__(self, request: Request, response: Response) -> None:
        self._request, self._response = request, response

    async def send(
        self, machine: str, name: Name, text: str = "", *, case: int | None = None, **details: object
    ) -> CommandResult:
        """Send a command and return its result, with status 202 if it has not been carried out yet."""
        state = self._request.state
        state.audit_details = audit_details(text, case, details)
        done = await send_command(context_of(self._request), state.person, machine, name, text, case=case, **details)
        if not done:
            self._response.status_code = 202
        return CommandResult(done=done)


Commands: TypeAlias = Annotated[CommandSender, Depends()]
