"""Alarms to send, and a receiver on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Self

from cgsa.events import AlarmChange, Case
from cgsa.live.commands import Command
from cgsa.live.plant import Plant
from cgsa.service.sinks.outbox import Outbox
from tests.service.sources.counterparts import block


def change(number: int, *, notify: bool = True) -> AlarmChange:
    """Return a change of a case."""
    case = Case(number, "raised", "high", "wear", ("wear",), opened=1.0, changed=2.0)
    return AlarmChange("m1", 2.0, "opened", "wear", notify, case)


def put(outbox: Outbox, *numbers: int, notify: bool = True) -> None:
    for number in numbers:
        assert outbox.put("m1", number, 0, change(number, notify=notify))


def ids(outbox: Outbox, begin: int = 0) -> list[str | None]:
    return [None if notification is None else notification.id for _, notification in outbox.read(begin)]


def raise_alarm(plant: Plant, machine: str = "m1") -> None:
    """Raise an alarm of a machine: its data end."""
    plant.submit(block(0, machine))
    for seconds in (0.0, 100.0):
        plant.worker(machine).command(Command("silence", "service", details={"seconds": seconds})).result(10)


class Receiver:
    """Accepts what is posted to it, and answers as configured."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.answer: Callable[[dict[str, Any]], int] = lambda _: 204
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                code = receiver.answer(json.loads(body))
                if 200 <= code < 300:
                    receiver.got.append((dict(self.headers), body))
                self.send_response(code)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/calls"

    @property
    def ids(self) -> list[str]:
        return [json.loads(body)["id"] for _, body in self.got]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def progress(folder: Path) -> Any:
    return json.loads((folder / "progress.json").read_text())
