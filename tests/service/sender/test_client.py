"""How the sender talks to a service: it repeats what may succeed later, and reports what is refused."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from cgsa.service.sender import send

Answer = tuple[int, dict[str, str], object]


@contextmanager
def answering(*answers: Answer) -> Iterator[tuple[send.ServiceClient, list[bytes]]]:
    """Run a service that gives these answers in turn; yield a client of it and the bodies that it got."""
    left, bodies = list(answers), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            status, headers, content = left.pop(0)
            text = json.dumps(content).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield send.ServiceClient(f"http://127.0.0.1:{server.server_port}/"), bodies
        finally:
            server.shutdown()
            thread.join()


def refusal(message: str) -> object:
    return {"error": {"kind": "error", "message": message, "where": None}}


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that the client waited, without waiting."""
    found: list[float] = []
    monkeypatch.setattr(time, "sleep", found.append)
    return found


def test_a_block_is_repeated_until_it_is_taken(pauses: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    busy: Answer = (503, {}, refusal("too much waits"))
    with answering((503, {"Retry-After": "7"}, refusal("disk full")), busy, busy, (202, {}, {})) as (client, bodies):
        client.post(b"block")
    assert bodies == [b"block"] * 4
    # What the service asks for, else growing intervals.
    assert pauses == [7.0, 1.0, 2.0]
    assert "disk full; again in 7 s" in capsys.readouterr().err


def test_what_will_never_be_taken_ends_the_program(pauses: list[float]) -> None:
    refused = pytest.raises(send.SendError, match=r"refused \(422\): expected 256 Hz")
    with answering((422, {}, refusal("expected 256 Hz"))) as (client, _), refused:
        client.post(b"block")
    assert pauses == []


def test_old_blocks_and_later_refusals_are_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    later: Answer = (202, {}, {"last_refused": {"what": "windows", "text": "flat line on x", "reason": "flat line"}})
    begin: Answer = (202, {}, {"last_refused": {"what": "gap", "text": "0 blocks", "reason": "sender restarted"}})
    with answering(begin, (409, {}, refusal("duplicate or late")), later, later) as (client, bodies):
        for _ in range(4):
            client.post(b"block")
    assert len(bodies) == 4
    assert capsys.readouterr().err.splitlines() == ["refused: duplicate or late", "refused: flat line on x"]
