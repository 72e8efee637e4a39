"""One command to several cases: the one way of the API and of the pages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from starlette.requests import HTTPConnection

from cgsa.errors import CgsaError
from cgsa.service.commands import send_audited
from cgsa.service.context import ServiceContext

AT_ONCE = 8
"""Machines that carry out the command at the same time; each may take some seconds."""

BulkName: TypeAlias = Literal["acknowledge", "shelve"]


@dataclass(frozen=True)
class CaseOutcome:
    """What became of the command for one case."""

    machine: str
    case: int
    done: bool
    refused: str | None = None
    """None if it was not refused."""


async def send_to_cases(
    context: ServiceContext,
    connection: HTTPConnection,
    name: BulkName,
    cases: Sequence[tuple[str, int]],
    text: str = "",
    **details: object,
) -> list[CaseOutcome]:
    """Send a command for each case (machine, number) that a person saw, and audit each."""
    places = asyncio.Semaphore(AT_ONCE)

    async def send_one(machine: str, case: int) -> CaseOutcome:
        async with places:
            try:
                done = await send_audited(context, connection, machine, name, text, case=case, **details)
            except CgsaError as error:
                return CaseOutcome(machine, case, done=False, refused=str(error))
            return CaseOutcome(machine, case, done)

    return list(await asyncio.gather(*(send_one(*one) for one in dict.fromkeys(cases))))
