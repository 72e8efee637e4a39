from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from cgsa.errors import ConfigError
from cgsa.service.limits import BodyLimit, RateLimit, RequestLimits
from tests.service.running_service import RunningService, running_service

SMALL = RequestLimits(body_bytes=200, client_rate=0.001, client_burst=25, person_rate=0.001, person_burst=4)


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[RunningService]:
    with running_service(tmp_path, limits=SMALL) as found:
        yield found


def test_impossible_limits_are_refused() -> None:
    with pytest.raises(ConfigError, match="limit body_bytes is 0; expected a positive number"):
        RequestLimits(body_bytes=0)
    with pytest.raises(ConfigError, match="limit block_bytes"):
        RequestLimits(block_bytes=2**30)
    with pytest.raises(ConfigError, match="limit client_rate"):
        RequestLimits(client_rate=float("nan"))


def test_a_body_that_is_too_large_is_refused_with_and_without_its_length(strict: RunningService) -> None:
    with strict.client("admin") as client:
        for content in (b"x" * 300, iter([b"x" * 150] * 2)):
            answer = client.post("/api/tokens", content=content, headers={"Content-Type": "application/json"})
            assert answer.status_code == 413
            assert answer.json()["error"]["kind"] == "too large"
        assert client.post("/login", content=b"token=" + b"x" * 300).status_code == 413


def test_the_rate_of_requests_is_limited(strict: RunningService) -> None:
    with strict.client("viewer") as viewer, strict.client("admin") as admin:
        statuses = [viewer.get("/api/me").status_code for _ in range(6)]
        assert statuses == [200] * 4 + [429] * 2
        assert admin.get("/api/me").status_code == 200, "each has a measure of their own"
        assert [viewer.get("/login").status_code for _ in range(18)] == [200] * 18
        answer = admin.get("/login")
        assert answer.status_code == 429, "all from one address share another one"
        assert int(answer.headers["Retry-After"]) > 0
        assert answer.json()["error"]["kind"] == "too often"
        assert [admin.get(path).status_code for path in ("/health", "/ready")] == [200, 200]


def test_a_false_content_length_is_ignored() -> None:
    assert asyncio.run(_sent([b"x" * 90, b"x" * 90, b"x" * 90], length=b"10")) == (413, 180)
    assert asyncio.run(_sent([b"x" * 90, b"x" * 90], length=b"not a number")) == (200, 180)
    assert asyncio.run(_sent([b"x"], length=b"9" * 5000)) == (413, 0)


def test_a_body_that_never_ends_is_refused() -> None:
    assert asyncio.run(_sent([b"x"], ends=False)) == (408, 1)


async def _sent(chunks: list[bytes], *, length: bytes = b"", ends: bool = True) -> tuple[int, int]:
    """Send a body in pieces; return the status, and how much of it was read."""
    read = 0
    status = 0
    waiting = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    if ends:
        waiting[-1]["more_body"] = False

    async def receive() -> Message:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop(0)

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)

    async def app(_: Scope, receive: Receive, send: Send) -> None:
        nonlocal read
        more = True
        while more:
            message = await receive()
            read += len(message["body"])
            more = message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})

    limits = RequestLimits(body_bytes=200, body_seconds=0.05)
    scope = {"type": "http", "path": "/api/tokens", "method": "POST", "headers": [(b"content-length", length)]}
    try:
        await BodyLimit(app, limits)(scope, receive, send)
    except Exception as error:  # whatever it is, the app answers it
        status = getattr(error, "status_code", 500)
    return status, read


def test_other_messages_pass_unchanged() -> None:
    passed = []

    async def app(scope: Scope, _: Receive, __: Send) -> None:
        passed.append(scope["type"])

    async def never() -> Message:
        raise AssertionError

    async def nothing(_: Message) -> None:
        raise AssertionError

    async def go() -> None:
        for scope in ({"type": "lifespan"}, {"type": "websocket", "path": "/"}):
            await BodyLimit(app, RequestLimits())(scope, never, nothing)
            await RateLimit(app, RequestLimits(client_burst=1e-9))(scope, never, nothing)

    asyncio.run(go())
    assert passed == ["lifespan"] * 2 + ["websocket"] * 2


@pytest.mark.parametrize("path", ["/api/me", "/api/nothing", "/health", "/metrics", "/login", "/nothing"])
def test_every_answer_has_security_headers(service: RunningService, path: str) -> None:
    with service.client("viewer") as client:
        headers = client.get(path).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "same-origin"
    policy = headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in policy
    assert "http" not in policy, "nothing is loaded from elsewhere"
    if path.startswith("/api"):
        assert policy.startswith("default-src 'none'")
        assert headers["Cache-Control"] == "no-store"
    assert "server" not in headers


def test_endless_headers_are_refused(service: RunningService) -> None:
    with service.client("viewer") as client:
        try:
            status = client.get("/api/me", headers={"X-Long": "x" * 2**20}).status_code
        except httpx.TransportError:
            status = 431  # the server hung up, which is as good
    assert status in {400, 431}
