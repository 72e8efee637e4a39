"""One shape for every error: ``{"error": {"kind": ..., "message": ..., "where": ...}}``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from cgsa.errors import BundleError, CgsaError, OverloadError, is_environmental
from cgsa.service.rights import NotAllowedError

KINDS: Mapping[int, str] = {
    400: "malformed",
    401: "who are you",
    403: "not allowed",
    404: "not found",
    405: "wrong method",
    408: "too slow",
    409: "conflict",
    413: "too large",
    415: "wrong type",
    422: "invalid",
    429: "too often",
    500: "bug",
    503: "unavailable",
}
"""A keyword for each status."""
RETRY_SECONDS = 1.0
"""When to repeat a request that was refused because the service is busy."""


class RefusedError(CgsaError):
    """A request cannot be fulfilled."""

    def __init__(self, status: int, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        """Seconds after which to try again; None if that does not help."""


def error_response(
    status: int, message: str, where: str | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the answer to a request that failed."""
    content = {"error": {"kind": KINDS.get(status, "error"), "message": message, "where": where}}
    # Plain ASCII: refused input may be quoted, and need not be valid text.
    return Response(json.dumps(content), status, dict(headers or {}), media_type="application/json")


def status_of(error: Exception) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, RefusedError | NotAllowedError):
        return error.status
    if isinstance(error, HTTPException):
        return error.status_code
    # The disk may recover later; no other request would help.
    if isinstance(error, OverloadError) or (isinstance(error, CgsaError) and is_environmental(error)):
        return 503
    if isinstance(error, BundleError):
        return 409
    return 422 if isinstance(error, CgsaError | RequestValidationError) else 500


def message_of(error: Exception) -> str:
    """Return the message of an error."""
    match error:
        case CgsaError():
            return str(error)
        case HTTPException():
            return str(error.detail)
        case RequestValidationError():
            return "; ".join(f"{_location(found)}: {found['msg']}" for found in error.errors()[:5])
        case _:
            return "an internal error occurred; see the log of the service"


def respond(_: Request, error: Exception) -> Response:
    """Answer a request that ended in an error."""
    status, where = status_of(error), None
    headers: dict[str, str] = {}
    if isinstance(error, RequestValidationError) and error.errors():
        where = _location(error.errors()[0])
    if isinstance(error, HTTPException) and error.headers:
        headers |= error.headers
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    retry = error.retry_after if isinstance(error, RefusedError | NotAllowedError) else None
    if status == 503 and retry is None:
        retry = RETRY_SECONDS
    if retry is not None:
        headers["Retry-After"] = str(max(1, math.ceil(retry)))
    return error_response(status, message_of(error), where, headers)


def handle_errors(app: FastAPI) -> None:
    """Make an app answer all errors in the same shape."""
    for kind in (CgsaError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, respond)


def _location(found: Mapping[str, object]) -> str:
    """Return the invalid part of a request, such as ``body.seconds``."""
    path = found.get("loc", ())
    return ".".join(str(part)[:64] for part in path) if isinstance(path, tuple | list) else ""
