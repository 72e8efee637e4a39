"""Cases: what alarms there are and were, and what people do about them."""

from __future__ import annotations

import json
import math
from typing import Annotated, Literal

from fastapi import Path, Query, Response

from cgsa.live.intake.block import MAX_TIME
from cgsa.live.store import RowSelection, Snapshot, Snippet
from cgsa.service.api.guarded import TheParts, guarded_router, needs
from cgsa.service.api.parameters import LATER, CaseNumber, Gives, MachineName, OfMachine, Rows
from cgsa.service.errors import RefusedError
from cgsa.service.schemas import (
    CaseFile,
    Done,
    Finding,
    MachineCase,
    Page,
    Remark,
    Said,
    Shelving,
    SnippetInfo,
    Waveform,
)

NEWEST = RowSelection(limit=200)
"""What a case shows of its changes, comments and labels."""
SNIPPETS = RowSelection(limit=20)

router = guarded_router()

_COMMAND = needs("operator", 404, 409, 503, answers={202: LATER})
_WAVEFORM = {
    "model": Waveform,
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}


@router.get("/cases", tags=["cases"], **needs("viewer", 503))
def list_cases(
    parts: TheParts,
    rows: Rows,
    machine: OfMachine = None,
    only_open: bool = False,  # noqa: FBT001 - asked for by its name
) -> Page[MachineCase]:
    """Return cases as they are now, by the times at which they opened."""
    with parts.plant.store.read() as snapshot:
        return Page[MachineCase].model_validate(snapshot.cases(machine, only_open=only_open, pick=rows))


@router.get("/machines/{machine}/cases/{case}", tags=["cases"], **needs("viewer", 404, 503))
def show_case(machine: MachineName, case: CaseNumber, parts: TheParts) -> CaseFile:
    """Return a case with what happened to it, what people said of it, and the waveforms around it."""
    with parts.plant.store.read() as snapshot:
        changes = snapshot.changes(machine, case=case, pick=NEWEST).rows
        if not changes:
            raise RefusedError(404, f"{machine} has no case {case}")
        return CaseFile.model_validate(
            {
                "machine": machine,
                # As it was after its newest change, which is as it is.
                "case": changes[0].case,
                "changes": changes,
                "comments": snapshot.comments(machine, case=case, pick=NEWEST).rows,
                "labels": snapshot.labels(machine, case=case, pick=NEWEST).rows,
                "snippets": tuple(map(_about, snapshot.snippets(machine, case=case, pick=SNIPPETS).rows)),
            }
        )


@router.get(
    "/machines/{machine}/cases/{case}/snippets/{time}",
    tags=["cases"],
    response_class=Response,
    **needs("viewer", 404, 503, answers={200: _WAVEFORM}),
)
def show_snippet(
    machine: MachineName,
    case: CaseNumber,
    time: Annotated[float, Path(ge=0, lt=MAX_TIME, allow_inf_nan=False)],
    parts: TheParts,
    form: Annotated[Literal["json", "float32"], Query()] = "json",
) -> Response:
    """Return the waveform that begins at a time.

    As ``float32`` it is the samples alone, little-endian, channel after
    channel; the headers ``X-CGSA-Channels`` (JSON), ``X-CGSA-Samples`` and
    ``X-CGSA-Rate`` say of what.
    """
    with parts.plant.store.read() as snapshot:
        found = _at(snapshot, machine, case, time)
    if form == "float32":
        headers = {
            "X-CGSA-Channels": json.dumps(found.channels),
            "X-CGSA-Samples": str(found.samples.shape[1]),
            "X-CGSA-Rate": repr(found.sample_rate),
        }
        return Response(found.samples.astype("<f4").tobytes(), 200, headers, "application/octet-stream")
    samples = [[value if math.isfinite(value) else None for value in row] for row in found.samples.tolist()]
    content = {**_about(found).model_dump(), "samples": samples}
    return Response(json.dumps(content, allow_nan=False), media_type="application/json")


@router.post("/machines/{machine}/cases/{case}/acknowledge", tags=["alarms"], **_COMMAND)
async def acknowledge(machine: MachineName, case: CaseNumber, said: Said, giver: Gives) -> Done:
    """Answer for what the open case tells of."""
    return await giver.of_case(machine, case, "acknowledge", said.text)


@router.post("/machines/{machine}/cases/{case}/shelve", tags=["alarms"], **_COMMAND)
async def shelve(machine: MachineName, case: CaseNumber, said: Shelving, giver: Gives) -> Done:
    """Let the open case call nobody for a while."""
    return await giver.of_case(machine, case, "shelve", said.text, seconds=said.seconds)


@router.post("/machines/{machine}/cases/{case}/unshelve", tags=["alarms"], **_COMMAND)
async def unshelve(machine: MachineName, case: CaseNumber, said: Said, giver: Gives) -> Done:
    """Bring a shelved case back before its time."""
    return await giver.of_case(machine, case, "unshelve", said.text)


@router.post("/machines/{machine}/cases/{case}/close", tags=["alarms"], **_COMMAND)
async def close(machine: MachineName, case: CaseNumber, said: Said, giver: Gives) -> Done:
    """Close the open case; what still stands reopens it."""
    return await giver.of_case(machine, case, "close", said.text)


@router.post("/machines/{machine}/cases/{case}/comments", tags=["alarms"], **_COMMAND)
async def comment(machine: MachineName, case: CaseNumber, said: Remark, giver: Gives) -> Done:
    """Say something of the newest case."""
    return await giver.of_case(machine, case, "comment", said.text)


@router.post("/machines/{machine}/labels", tags=["alarms"], **_COMMAND)
async def label(machine: MachineName, found: Finding, giver: Gives) -> Done:
    """Say what the machine really had."""
    return await giver.give(machine, "label", state=found.state, begin=found.begin, end=found.end)


def _about(snippet: Snippet) -> SnippetInfo:
    return SnippetInfo(
        time=snippet.time,
        sample_rate=snippet.sample_rate,
        channels=snippet.channels,
        count=snippet.samples.shape[1],
    )


def _at(snapshot: Snapshot, machine: str, case: int, time: float) -> Snippet:
    only = RowSelection(begin=time, end=math.nextafter(time, math.inf), limit=1)
    found = snapshot.snippets(machine, case=case, pick=only).rows
    if not found:
        raise RefusedError(404, f"case {case} of {machine} has no waveform that begins at {time!r}")
    return found[0]
