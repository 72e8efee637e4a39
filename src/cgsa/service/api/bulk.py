"""Commands about several cases at once; each is bound to the number of the case that the person saw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from cgsa.service.alarm_schemas import BulkForm, BulkOutcome, BulkResult, BulkShelveForm
from cgsa.service.api.routing import Context, needs, role_router
from cgsa.service.bulk_commands import BulkName, CaseOutcome, send_to_cases
from cgsa.service.commands import COMMAND_ROLES

router = role_router()


def _settings(name: BulkName) -> dict[str, Any]:
    # Each of the commands is audited by itself.
    return needs(COMMAND_ROLES[name], scope="body", journalled=True)


@router.post("/cases/acknowledge", tags=["alarms"], **_settings("acknowledge"))
async def acknowledge_cases(wanted: BulkForm, request: Request, context: Context) -> BulkResult:
    """Acknowledge cases of several machines; the answer says for each whether it was refused, and why."""
    cases = [(one.machine, one.case) for one in wanted.cases]
    return _result(await send_to_cases(context, request, "acknowledge", cases, wanted.text))


@router.post("/cases/shelve", tags=["alarms"], **_settings("shelve"))
async def shelve_cases(wanted: BulkShelveForm, request: Request, context: Context) -> BulkResult:
    """Shelve cases of several machines; the answer says for each whether it was refused, and why."""
    cases = [(one.machine, one.case) for one in wanted.cases]
    return _result(await send_to_cases(context, request, "shelve", cases, wanted.text, seconds=wanted.seconds))


def _result(found: Sequence[CaseOutcome]) -> BulkResult:
    return BulkResult(results=tuple(map(BulkOutcome.model_validate, found)))
