from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from cgsa.service import middleware
from cgsa.service.limits import RequestLimits
from cgsa.service.middleware import MAX_HELD, PERSON_KEY, BodyLimit, RateLimit
from cgsa.service.traffic import TrafficCounts
from tests.service.running_service import BINARY, RunningService, block, running_service

SMALL = RequestLimits(
    body_bytes=200,
    address_rate=0.001,
    address_burst=20,
    token_rate=0.001,
    token_burst=4,
    block_rate=0.001,
    block_burst=3,
)


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[RunningService]:
    with running_service(tmp_path, limits=SMALL) as found:
        yield found


def test_a_body_that_is_too_large_is_refused_with_and_without_its_length(strict: RunningService) -> None:
    with strict.client("admin") as client:
        for content in (b"x" * 300, iter([b"x" * 150] * 2)):
            answer = client.post("/api/tokens", content=content, headers={"Content-Type": "application/json"})
            assert answer.status_code == 413
            assert answer.json()["error"]["kind"] == "too large"
        assert client.post("/login", content=b"token=" + b"x" * 300).status_code == 413


def test_each_token_and_each_address_has_a_limit_of_its_own(strict: RunningService) -> None:
    with strict.client("viewer") as viewer, strict.client("admin") as admin, strict.client(None) as nobody:
        statuses = [viewer.get("/api/me").status_code for _ in range(6)]
        assert statuses == [200] * 4 + [429] * 2
        answer = viewer.get("/api/me")
        assert int(answer.headers["Retry-After"]) > 0
        assert answer.json()["error"] == {
            "kind": "too often",
            "message": "too many requests of the-viewer; slow down",
            "where": None,
        }
        assert [nobody.get("/login").status_code for _ in range(20)] == [200] * 20
        for headers in ({}, {"Authorization": f"Bearer cgsa.the-admin.{'A' * 43}"}):
            answer = nobody.get("/api/me", headers=headers)
            assert answer.status_code == 429, "a wrong token is none"
            assert int(answer.headers["Retry-After"]) > 0
            assert answer.headers["Connection"] == "close"
        assert admin.get("/api/me").status_code == 200, "whoever has a token is not shut out by others at the address"
        assert [nobody.get(path).status_code for path in ("/health", "/ready")] == [200, 200]
        statuses = [
            admin.post("/api/blocks", content=block(n).to_bytes(), headers=BINARY).status_code for n in range(4)
        ]
        assert statuses == [202] * 3 + [429], "blocks have a limit of their own"
        with strict.client("operator") as operator:
            metrics = operator.get("/metrics").text
    assert 'cgsa_refused_requests_total{limit="address"} 2.0' in metrics
    assert 'cgsa_refused_requests_total{limit="token"} 3.0' in metrics
    assert 'cgsa_refused_requests_total{limit="block"} 1.0' in metrics


def test_monitoring_is_answered_however_often_it_comes(
    monkeypatch: pytest.MonkeyPatch, service: RunningService
) -> None:
    monkeypatch.setattr(middleware, "HOLD_SECONDS", 0.01)
    statuses = asyncio.run(_asked(service, "/health", MAX_HELD + 10))
    assert statuses == [200] * (MAX_HELD + 10)
    assert 429 in asyncio.run(_asked(service, "/login", MAX_HELD + 10))


async def _asked(service: RunningService, path: str, times: int) -> list[int]:
    """Send requests at the same time to an app whose limit is one of them."""
    limits = RequestLimits(address_rate=1e-3, address_burst=1)
    app = RateLimit(service.app, limits, service.authenticator, TrafficCounts())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://pump") as client:
        return [answer.status_code for answer in await asyncio.gather(*(client.get(path) for _ in range(times)))]


def test_bodies_in_memory_are_limited_together() -> None:
    async def go() -> list[int]:
        limits = RequestLimits(waiting_bytes=250, body_bytes=200)
        reading = asyncio.Event()

        async def app(_: Scope, receive: Receive, send: Send) -> None:
            await receive()
            await reading.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})

        limit = BodyLimit(app, limits)
        statuses: list[int] = []

        async def ask(size: int) -> None:
            async def receive() -> Message:
                return {"type": "http.request", "body": b"x" * size, "more_body": False}

            async def send(message: Message) -> None:
                statuses.append(message["status"])

            scope = {"type": "http", "path": "/api/tokens", "method": "POST", "headers": []}
            try:
                await limit(scope, receive, send)
            except HTTPException as error:
                statuses.append(error.status_code)

        first = asyncio.create_task(ask(200))
        await asyncio.sleep(0)
        await ask(100)
        reading.set()
        await first
        await ask(100)
        return statuses

    assert asyncio.run(go()) == [503, 200, 200]


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

    asyncio.run(go())
    assert passed == ["lifespan", "websocket"]


def test_pages_are_connected_for_those_who_are_logged_in_and_not_too_often(service: RunningService) -> None:
    async def go() -> tuple[list[str], list[str]]:
        opened: list[str] = []
        closed: list[str] = []
        over = asyncio.Event()

        async def app(scope: Scope, _: Receive, __: Send) -> None:
            opened.append(scope[PERSON_KEY].name)
            await over.wait()

        traffic = TrafficCounts()
        limit = RateLimit(app, RequestLimits(token_pages=2), service.authenticator, traffic)

        async def connect(who: str | None) -> None:
            async def receive() -> Message:
                return {"type": "websocket.connect"}

            async def send(message: Message) -> None:
                closed.append(f"{who} {message['type']}")

            cookies = [] if who is None else [(b"authorization", f"Bearer {service.tokens[who]}".encode())]
            await limit({"type": "websocket", "path": "/_nicegui_ws/", "headers": cookies}, receive, send)

        waiting = [asyncio.create_task(connect(who)) for who in (None, "sender", "viewer", "viewer", "viewer", "admin")]
        await asyncio.sleep(0.01)
        over.set()
        await asyncio.gather(*waiting)
        await connect("viewer")
        assert traffic.refused["page"] == 3
        return opened, closed

    opened, closed = asyncio.run(go())
    assert opened == ["the-viewer", "the-viewer", "the-admin", "the-viewer"]
    assert closed == [f"{who} websocket.close" for who in (None, "sender", "viewer")]


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
    assert "Strict-Transport-Security" not in headers, "a browser would refuse plain HTTP from then on"


def test_endless_headers_are_refused(service: RunningService) -> None:
    with service.client("viewer") as client:
        try:
            status = client.get("/api/me", headers={"X-Long": "x" * 2**20}).status_code
        except httpx.TransportError:
            status = 431  # the server hung up, which is as good
    assert status in {400, 431}
