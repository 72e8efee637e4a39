"""Blocks: samples that come over HTTP."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from cgsa.errors import DataError
from cgsa.live.intake.block import MAX_CHANNELS, MAX_HEADER_BYTES, MAX_NAME, MAX_SEQUENCE, MAX_TIME, Block
from cgsa.live.segments import MAX_PAYLOAD_BYTES
from cgsa.service.api.guarded import TheParts, guarded_router, needs
from cgsa.service.api.parameters import MACHINE
from cgsa.service.context import ServiceContext
from cgsa.service.errors import RefusedError
from cgsa.service.schemas import Taken

BINARY, TEXT = "application/octet-stream", "application/json"

router = guarded_router()

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
            "description": "A list a channel, in physical units; null is not a number.",
            "type": "array",
            "items": {"type": "array", "items": {"type": ["number", "null"]}, "minItems": 1},
        },
    },
}
_BODY = {
    "required": True,
    "content": {BINARY: {"schema": {"type": "string", "format": "binary"}}, TEXT: {"schema": _FORM}},
}


def _needs() -> dict[str, Any]:
    found = needs("operator", 404, 408, 415, 503, journalled=True)
    return {**found, "openapi_extra": {**found["openapi_extra"], "requestBody": _BODY}}


@router.post("/blocks", tags=["blocks"], status_code=202, response_model=Taken, **_needs())
async def take_block(request: Request, parts: TheParts) -> Taken:
    """Take one block of samples, in its binary form or as JSON.

    It is in the journal of its machine when the answer comes, and will be
    diagnosed whatever happens. A block that was sent twice does no harm.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in {BINARY, TEXT}:
        raise RefusedError(415, f"content type {kind[:64]!r}; expected {BINARY} or {TEXT}")
    body = await request.body()
    return await run_in_threadpool(_take, parts, kind, body)


def _take(parts: ServiceContext, kind: str, body: bytes) -> Taken:
    block = Block.from_bytes(body) if kind == BINARY else Block.from_json(body)
    parts.worker(block.machine)
    if block.samples.nbytes + MAX_HEADER_BYTES > MAX_PAYLOAD_BYTES:
        raise RefusedError(413, f"{block.samples.nbytes} bytes of samples; a journal takes {MAX_PAYLOAD_BYTES}")
    try:
        return Taken(machine=block.machine, position=parts.plant.submit(block))
    except DataError as error:
        # The block itself was good, so it is the journal that cannot take it just now.
        raise RefusedError(503, str(error)) from error
