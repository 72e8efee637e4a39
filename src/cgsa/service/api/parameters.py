"""What many routes are asked with: a machine, a case, which rows; and how commands are given."""

from __future__ import annotations

import asyncio
import math
from typing import Annotated, TypeAlias

from fastapi import Depends, Path, Query, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from cgsa.errors import DataError
from cgsa.live.commands import Command, Name
from cgsa.live.intake.block import MAX_NAME, MAX_TIME
from cgsa.live.store import MAX_PAGE, RowSelection
from cgsa.service.auth import Person
from cgsa.service.context import context_of
from cgsa.service.errors import RefusedError
from cgsa.service.schemas import Done

COMMAND_SECONDS = 5.0
"""How long to wait until a command was carried out; it will be in any case."""
CURSOR = r"^-?[0-9]{1,17}(\.[0-9]{1,17})?(e[+-]?[0-9]{1,2})?,[0-9]{1,18}$"
"""A time and the number of a row, as pages give them; a number that no database holds would be another's error."""
MACHINE = r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$"

LATER = {"model": Done, "description": "In the journal; it is carried out when its turn comes"}
"""The answer to a command that waits."""

MachineName: TypeAlias = Annotated[str, Path(max_length=MAX_NAME, pattern=MACHINE)]
OfMachine: TypeAlias = Annotated[str | None, Query(max_length=MAX_NAME, pattern=MACHINE)]
CaseNumber: TypeAlias = Annotated[int, Path(ge=1, lt=2**31)]
StateNumber: TypeAlias = Annotated[int, Path(ge=1, lt=2**31)]
Moment: TypeAlias = Annotated[float | None, Query(ge=0, le=MAX_TIME, allow_inf_nan=False)]


def _pick(
    begin: Moment = None,
    end: Moment = None,
    after: Annotated[str | None, Query(max_length=64, pattern=CURSOR)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
    newest_first: bool = True,  # noqa: FBT001 - asked for by its name
) -> RowSelection:
    """Return which rows of a table are asked for: those from ``begin`` on and before ``end``, a page at a time."""
    return RowSelection(
        begin=-math.inf if begin is None else begin,
        end=math.inf if end is None else end,
        after=after,
        limit=limit,
        newest_first=newest_first,
    )


Rows: TypeAlias = Annotated[RowSelection, Depends(_pick)]


class CommandSender:
    """Gives the commands of whoever asks; made anew for each request."""

    def __init__(self, request: Request, response: Response) -> None:
        self._request, self._response = request, response
        self._parts = context_of(request)

    async def of_case(self, machine: str, case: int, name: Name, text: str, **details: object) -> Done:
        """Give a command about a case, which must be the machine's newest: what a person saw is what they mean."""
        newest = self._parts.worker(machine).watch.alarms.case
        if newest is None or case > newest.number:
            raise RefusedError(404, f"{machine} has no case {case}")
        if case < newest.number:
            raise RefusedError(409, f"case {case} of {machine} is over; its newest is {newest.number}")
        return await self.give(machine, name, text, **details, case=case)

    async def give(self, machine: str, name: Name, text: str = "", **details: object) -> Done:
        """Give a command to a machine's watch, and say what became of it."""
        worker = self._parts.worker(machine)
        self._request.state.said = {**details, "text": text} if text else details
        person: Person = self._request.state.person
        try:
            future = await run_in_threadpool(worker.command, Command(name, person.name, text, details))
            waiting = asyncio.wrap_future(future)
            finished, _ = await asyncio.wait({waiting}, timeout=COMMAND_SECONDS)
            if not finished:
                self._response.status_code = 202
            elif waiting.cancelled():
                raise RefusedError(503, "the service ends; the command is carried out when it is back")
            else:
                waiting.result()
        except DataError as error:
            if isinstance(error.__cause__, OSError):
                raise
            raise RefusedError(409, str(error)) from error
        return Done(done=bool(finished))


Gives: TypeAlias = Annotated[CommandSender, Depends()]
