"""Blocks of samples over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from cgsa.errors import DataError
from cgsa.live.intake.block import (
    MAX_CHANNELS,
    MAX_CONDITIONS,
    MAX_HEADER_BYTES,
    MAX_NAME,
    MAX_SEQUENCE,
    MAX_TIME,
    Block,
)
from cgsa.live.intake.continuity import LATE
from cgsa.live.intake.refusals import RefusedBlockError
from cgsa.live.segments import MAX_PAYLOAD_BYTES
from cgsa.service.api.routing import Context, CurrentPerson, DirectRoute, needs, role_router
from cgsa.service.context import ServiceContext
from cgsa.service.errors import RefusedError
from cgsa.service.rights import Person
from cgsa.service.schemas import MACHINE, AcceptedBlock

BINARY, TEXT = "application/octet-stream", "application/json"

router = role_router(DirectRoute)

_FORM = {
    "type": "object",
    "additionalProperties": False,
    "required": ["machine", "sequence", "time", "sample_rate", "channels", "samples"],
    "properties": {
        "machine": {"type": "string", "maxLength": MAX_NAME, "pattern": MACHINE},
        "sequence": {"type": "integer", "minimum": 0, "maximum": MAX_SEQUENCE},
        "time": {"type": "number", "minimum": 0, "exclusiveMaximum": MAX_TIME},
        "sample_rate": {"type": "number", "exclusiveMinimum": 0},
        "channels": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": MAX_NAME},
            "uniqueItems": True,
            "minItems": 1,
            "maxItems": MAX_CHANNELS,
        },
        "samples": {
            "description": "A list per channel, in physical units; null for a value that is not a number.",
            "type": "array",
            "items": {"type": "array", "items": {"type": ["number", "null"]}, "minItems": 1},
        },
        "conditions": {
            "description": "Known operating conditions, by the names and in the units of the model; may be left out.",
            "type": "object",
            "additionalProperties": {"type": "number"},
            "maxProperties": MAX_CONDITIONS,
        },
        "units": {
            "description": "Units of channels, which are compared with those of the model; may be left out.",
            "type": "object",
            "additionalProperties": {"type": "string", "maxLength": MAX_NAME},
            "maxProperties": MAX_CHANNELS,
        },
    },
}
_BODY = {
    "required": True,
    "content": {BINARY: {"schema": {"type": "string", "format": "binary"}}, TEXT: {"schema": _FORM}},
}


def _settings() -> dict[str, Any]:
    found = needs("sender", 404, 408, 409, 415, scope="body", journalled=True)
    return {**found, "openapi_extra": {**found["openapi_extra"], "requestBody": _BODY}}


@router.post("/blocks", tags=["blocks"], status_code=202, response_model=AcceptedBlock, **_settings())
async def take_block(request: Request, context: Context, person: CurrentPerson) -> Response:
    """Accept one block of samples, in binary form or as JSON.

    When the answer comes, the block is in the journal of its machine and will be diagnosed, also after a restart.
    Sending a block twice is harmless. A block that cannot be used is refused with the reason: 422 if its rate,
    channels, units or values are wrong, 409 if it lies before what is known. What is found only when a block is
    processed, such as a gap or a sensor fault, is in the next answer as ``last_refused``.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in {BINARY, TEXT}:
        raise RefusedError(415, f"content type {kind[:64]!r}; expected {BINARY} or {TEXT}")
    if kind == BINARY:
        return await run_in_threadpool(_accept, context, person, Block.from_bytes, await request.body())
    limit = context.limits.json_bytes
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise RefusedError(413, f"more than {limit} bytes of JSON; send fewer samples, or the binary form")
    # Numbers take many times as much memory as their text, so one body is decoded after the other.
    async with context.decoding:
        return await run_in_threadpool(_accept, context, person, Block.from_json, bytes(body))


def _accept(context: ServiceContext, person: Person, decode: Callable[[bytes], Block], body: bytes) -> Response:
    block = decode(body)
    context.worker(block.machine, person)
    if block.samples.nbytes + MAX_HEADER_BYTES > MAX_PAYLOAD_BYTES:
        raise RefusedError(413, f"{block.samples.nbytes} bytes of samples; expected at most {MAX_PAYLOAD_BYTES}")
    try:
        position = context.plant.submit(block)
    except RefusedBlockError as error:
        raise RefusedError(409 if error.reason == LATE else 422, str(error)) from error
    except DataError as error:
        # The block itself is valid, so the journal cannot be written at present.
        raise RefusedError(503, str(error)) from error
    last_refused = context.plant.last_refused(block.machine)
    accepted = AcceptedBlock(machine=block.machine, position=position, last_refused=last_refused)
    return Response(accepted.model_dump_json(), 202, media_type=TEXT)
