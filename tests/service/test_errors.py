from __future__ import annotations

import json
import sqlite3

import pytest
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request

from cgsa.errors import BundleError, CgsaError, ConfigError, DataError, OverloadError
from cgsa.service.errors import KINDS, RefusedError, respond, status_of
from cgsa.service.rights import NotAllowedError

REQUEST = Request({"type": "http", "method": "GET", "headers": []})


def caused(cause: Exception) -> CgsaError:
    error = DataError("store: cannot be read")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RefusedError(404, "no such thing"), 404),
        (NotAllowedError("who are you", 401), 401),
        (NotAllowedError("no"), 403),
        (NotAllowedError("slowly", 429), 429),
        (OverloadError("later"), 503),
        (BundleError("damaged"), 409),
        (DataError("nonsense"), 422),
        (ConfigError("nonsense"), 422),
        (caused(sqlite3.OperationalError("disk I/O error")), 503),
        (caused(OSError(28, "No space left")), 503),
        (caused(ValueError("x")), 422),
        (HTTPException(405), 405),
        (RequestValidationError([]), 422),
        (ValueError("a bug"), 500),
    ],
)
def test_every_error_has_a_status_and_the_same_shape(error: Exception, status: int) -> None:
    assert status_of(error) == status
    answer = respond(REQUEST, error)
    assert answer.status_code == status
    detail = json.loads(bytes(answer.body))["error"]
    assert set(detail) == {"kind", "message", "where"}
    assert detail["kind"] == KINDS[status]
    assert ("retry-after" in answer.headers) == (status == 503)


def test_an_internal_error_reveals_nothing() -> None:
    assert b"secret" not in bytes(respond(REQUEST, ValueError("secret path /etc")).body)


def test_invalid_text_can_be_quoted() -> None:
    answer = respond(REQUEST, DataError("half a character: \ud800"))
    assert json.loads(bytes(answer.body))["error"]["message"].endswith("\ud800")


def test_a_validation_error_names_the_field() -> None:
    found = [{"loc": ("body", "seconds", 3), "msg": "too small"}, {"loc": ("query", "x" * 1000), "msg": "unknown"}]
    error = json.loads(bytes(respond(REQUEST, RequestValidationError(found)).body))["error"]
    assert error["where"] == "body.seconds.3"
    assert error["message"].startswith("body.seconds.3: too small; query.xxx")
    assert len(error["message"]) < 200


def test_a_refusal_may_have_retry_after() -> None:
    assert respond(REQUEST, RefusedError(503, "full", retry_after=9.2)).headers["retry-after"] == "10"
