"""Cases: open and past alarms, and commands about them."""

from __future__ import annotations

import json
import math
from typing import Annotated, Literal, TypeAlias

from fastapi import Depends, Path, Query, Response

from cgsa.events import Severity
from cgsa.live.intake.block import MAX_TIME
from cgsa.live.store import CaseFilter, RowPage, RowSelection, Snippet
from cgsa.live.store.case_filter import ListedState
from cgsa.service.alarm_schemas import (
    CaseDetails,
    CommentForm,
    LabelForm,
    ListedCase,
    ShelveForm,
    SnippetInfo,
    Waveform,
)
from cgsa.service.api.parameters import CaseNumber, Commands, MachineName, Rows, command_settings
from cgsa.service.api.routing import Context, needs, role_router
from cgsa.service.errors import RefusedError
from cgsa.service.rights import MACHINES
from cgsa.service.schemas import CommandResult, RemarkForm
from cgsa.service.sinks.delivery_log import read_summaries, summarise

NEWEST = RowSelection(limit=200)
"""Changes, comments and labels shown of a case."""
SNIPPETS = RowSelection(limit=20)

router = role_router()


def _wanted_cases(
    machine: Annotated[str | None, Query(max_length=64, pattern=f"^{MACHINES}$")] = None,
    state: Annotated[list[ListedState] | None, Query(max_length=5)] = None,
    severity: Annotated[list[Severity] | None, Query(max_length=3)] = None,
    fault: Annotated[str | None, Query(max_length=200)] = None,
    *,
    acknowledged: bool | None = None,
    only_open: bool = False,
) -> CaseFilter:
    """Return which cases to list; ``state`` and ``severity`` may be given several times."""
    return CaseFilter(only_open, tuple(state or ()), tuple(severity or ()), fault, machine, acknowledged)


WantedCases: TypeAlias = Annotated[CaseFilter, Depends(_wanted_cases)]

_WAVEFORM = {
    "model": Waveform,
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}


@router.get("/cases", tags=["cases"], **needs("viewer", scope="listed"))
def list_cases(context: Context, rows: Rows, which: WantedCases) -> RowPage[ListedCase]:
    """Return the cases of all machines in their current state, ordered by the time they opened, page by page.

    ``begin`` and ``end`` are about that time. ``machine`` may be a pattern with ``*`` and ``?``; ``fault`` is the class
    of one of their faults.
    """
    with context.plant.store.read() as snapshot:
        page = snapshot.cases(which=which, pick=rows)
        cases = [(row.machine, row.case.number) for row in page.rows]
        found = read_summaries(snapshot, cases, context.escalation_steps)
    listed = [
        ListedCase(machine=row.machine, case=row.case, notification=one)
        for row, one in zip(page.rows, found, strict=True)
    ]
    return RowPage(tuple(listed), page.cursor, page.more)


@router.get("/machines/{machine}/cases/{case}", tags=["cases"], **needs("viewer", 404, scope="path"))
def show_case(machine: MachineName, case: CaseNumber, context: Context) -> CaseDetails:
    """Return a case with its changes, comments, labels and waveforms."""
    with context.plant.store.read() as snapshot:
        changes = snapshot.changes(machine, case=case, pick=NEWEST).rows
        if not changes:
            raise RefusedError(404, f"{machine} has no case {case}")
        deliveries = snapshot.deliveries(machine, case=case, pick=NEWEST).rows
        return CaseDetails.model_validate(
            {
                "machine": machine,
                # The case after its newest change is its current state.
                "case": changes[0].case,
                "changes": changes,
                "comments": snapshot.comments(machine, case=case, pick=NEWEST).rows,
                "labels": snapshot.labels(machine, case=case, pick=NEWEST).rows,
                "snippets": tuple(map(_info, snapshot.snippets(machine, case=case, pick=SNIPPETS).rows)),
                "notification": summarise(deliveries, context.escalation_steps),
                "deliveries": deliveries,
            }
        )


@router.get(
    "/machines/{machine}/cases/{case}/snippets/{time}",
    tags=["cases"],
    response_class=Response,
    **needs("viewer", 404, scope="path", answers={200: _WAVEFORM}),
)
def show_snippet(
    machine: MachineName,
    case: CaseNumber,
    time: Annotated[float, Path(ge=0, lt=MAX_TIME, allow_inf_nan=False)],
    context: Context,
    form: Annotated[Literal["json", "float32"], Query()] = "json",
) -> Response:
    """Return the waveform that begins at a time.

    ``float32`` returns the samples alone, little-endian, channel by channel; the headers ``X-CGSA-Channels`` (JSON),
    ``X-CGSA-Samples`` and ``X-CGSA-Rate`` describe them.
    """
    only = RowSelection(begin=time, end=math.nextafter(time, math.inf), limit=1)
    with context.plant.store.read() as snapshot:
        rows = snapshot.snippets(machine, case=case, pick=only).rows
    if not rows:
        raise RefusedError(404, f"case {case} of {machine} has no waveform starting at {time!r}")
    found = rows[0]
    if form == "float32":
        headers = {
            "X-CGSA-Channels": json.dumps(found.channels),
            "X-CGSA-Samples": str(found.samples.shape[1]),
            "X-CGSA-Rate": repr(found.sample_rate),
        }
        return Response(found.samples.astype("<f4").tobytes(), 200, headers, "application/octet-stream")
    samples = [[value if math.isfinite(value) else None for value in row] for row in found.samples.tolist()]
    content = {**_info(found).model_dump(), "samples": samples}
    return Response(json.dumps(content, allow_nan=False), media_type="application/json")


@router.post("/machines/{machine}/cases/{case}/acknowledge", tags=["alarms"], **command_settings("acknowledge"))
async def acknowledge(machine: MachineName, case: CaseNumber, said: RemarkForm, commands: Commands) -> CommandResult:
    """Acknowledge the open case."""
    return await commands.send(machine, "acknowledge", said.text, case=case)


@router.post("/machines/{machine}/cases/{case}/shelve", tags=["alarms"], **command_settings("shelve"))
async def shelve(machine: MachineName, case: CaseNumber, said: ShelveForm, commands: Commands) -> CommandResult:
    """Shelve the open case: it sends no notifications for a while."""
    return await commands.send(machine, "shelve", said.text, case=case, seconds=said.seconds)


@router.post("/machines/{machine}/cases/{case}/unshelve", tags=["alarms"], **command_settings("unshelve"))
async def unshelve(machine: MachineName, case: CaseNumber, said: RemarkForm, commands: Commands) -> CommandResult:
    """Unshelve a shelved case."""
    return await commands.send(machine, "unshelve", said.text, case=case)


@router.post("/machines/{machine}/cases/{case}/close", tags=["alarms"], **command_settings("close"))
async def close(machine: MachineName, case: CaseNumber, said: RemarkForm, commands: Commands) -> CommandResult:
    """Close the open case; an alarm that is still active reopens it."""
    return await commands.send(machine, "close", said.text, case=case)


@router.post("/machines/{machine}/cases/{case}/comments", tags=["alarms"], **command_settings("comment"))
async def comment(machine: MachineName, case: CaseNumber, said: CommentForm, commands: Commands) -> CommandResult:
    """Comment on the newest case."""
    return await commands.send(machine, "comment", said.text, case=case)


@router.post("/machines/{machine}/labels", tags=["alarms"], **command_settings("label"))
async def label(machine: MachineName, found: LabelForm, commands: Commands) -> CommandResult:
    """Label a time interval with the true state of the machine."""
    return await commands.send(machine, "label", state=found.state, begin=found.begin, end=found.end)


def _info(snippet: Snippet) -> SnippetInfo:
    return SnippetInfo(
        time=snippet.time, sample_rate=snippet.sample_rate, channels=snippet.channels, count=snippet.samples.shape[1]
    )
